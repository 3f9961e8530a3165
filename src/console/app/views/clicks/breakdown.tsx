/** Where clicks came from, by one dimension: a click on a row narrows everything down to it. */
import type { Params } from '../../api/client.ts';
import type { Dimension, TopAnswer, TopRow } from '../../api/types.ts';
import { Card } from '../../components/card.tsx';
import { Loaded } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { capital, count, countryText, percent } from '../../format.ts';
import { useApp, useNavigation } from '../../state/context.ts';
import { DIMENSIONS, type Filters, toggled } from '../../state/filters.ts';
import { useQuery } from '../../state/use-query.ts';

interface BreakdownProps {
  readonly dimension: Dimension;
  readonly params: Params;
  readonly filters: Filters;
  readonly round: number;
}

const SHOWN = 8;

export function Breakdown({ dimension, params, filters, round }: BreakdownProps) {
  const { api } = useApp();
  const words = DIMENSIONS[dimension];
  const asked = { ...params, by: dimension, limit: SHOWN };
  const query = useQuery(
    JSON.stringify([asked, round]),
    (signal) => api.get<TopAnswer>('/v1/ads/top', { params: asked, signal }),
    { keep: true },
  );
  return (
    <Card title={words.plural}>
      <div class="breakdown-body">
        <Loaded query={query} lines={5}>
          {(answer) => <Rows dimension={dimension} answer={answer} filters={filters} />}
        </Loaded>
      </div>
    </Card>
  );
}

interface RowsProps {
  readonly dimension: Dimension;
  readonly answer: TopAnswer;
  readonly filters: Filters;
}

function Rows({ dimension, answer, filters }: RowsProps) {
  const words = DIMENSIONS[dimension];
  const columns: Column<TopRow>[] = [
    {
      head: words.label,
      isRowHead: true,
      cell: (row) => (
        <FilterButton dimension={dimension} value={words.valueOf(row)} filters={filters} />
      ),
    },
    ...(dimension === 'ad' ? [EVIDENCE] : []),
    { head: 'Clicks', kind: 'number', cell: (row) => count(row.clicks) },
    { head: 'Share', kind: 'number', cell: (row) => <Share share={row.share} /> },
  ];
  const shown = answer.rows.reduce((sum, row) => sum + row.clicks, 0);
  return (
    <>
      <Table
        caption={`Clicks by ${words.label.toLowerCase()}`}
        columns={columns}
        rows={answer.rows}
        keyOf={(row) => words.valueOf(row)}
        empty="No clicks in this range."
      />
      {shown < answer.total && (
        <p class="hint">
          {count(answer.total - shown)} more {answer.total - shown === 1 ? 'click' : 'clicks'} on
          others.
        </p>
      )}
    </>
  );
}

const EVIDENCE: Column<TopRow> = {
  head: 'Evidence',
  kind: 'action',
  cell: (row) => <EvidenceLink adId={row.ad_id ?? ''} />,
};

function EvidenceLink({ adId }: { adId: string }) {
  const { href } = useNavigation();
  return (
    <a href={href('/evidence', { ad: adId })} aria-label={`Raw clicks of ${adId}`}>
      Raw clicks
    </a>
  );
}

interface FilterButtonProps {
  readonly dimension: Dimension;
  readonly value: string;
  readonly filters: Filters;
}

function FilterButton({ dimension, value, filters }: FilterButtonProps) {
  const { setQuery } = useNavigation();
  const isOn = filters[dimension].includes(value);
  return (
    <button
      type="button"
      class="filter-button"
      aria-pressed={isOn}
      title={isOn ? 'Remove this filter' : 'Show only this'}
      onClick={() => setQuery(toggled(filters, dimension, value))}
    >
      {textOf(dimension, value)}
    </button>
  );
}

function textOf(dimension: Dimension, value: string) {
  if (dimension === 'device') return capital(value);
  if (dimension !== 'country') return value;
  return (
    <>
      {countryText(value)} <span class="code">{value}</span>
    </>
  );
}

function Share({ share }: { share: number | null }) {
  return (
    <span class="share">
      <span class="share-track" aria-hidden="true">
        <span class="share-fill" style={{ width: `${(share ?? 0) * 100}%` }} />
      </span>
      <span class="share-text">{percent(share)}</span>
    </span>
  );
}
