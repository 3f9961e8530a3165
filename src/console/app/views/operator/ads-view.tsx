/** The catalog: which ads there are, and a file with more of them. */
import { useId, useState } from 'preact/hooks';
import type { AdRow } from '../../api/admin-types.ts';
import type { ActionProgress } from '../../api/client.ts';
import { ActionPanel } from '../../components/action-panel.tsx';
import { Card, PageHead } from '../../components/card.tsx';
import { Pager } from '../../components/pager.tsx';
import { Loaded, Note } from '../../components/states.tsx';
import { type Column, Table } from '../../components/table.tsx';
import { usePages } from '../../components/use-pages.ts';
import { bytes, count } from '../../format.ts';
import { useApp, useScope } from '../../state/context.ts';
import { useQuery } from '../../state/use-query.ts';

const PAGE_ROWS = 50;

interface Imported {
  readonly rows?: number;
  readonly added?: number;
  readonly changed?: number;
  readonly unchanged?: number;
}

export function AdsView() {
  const [round, setRound] = useState(0);
  return (
    <>
      <PageHead
        title="Catalog"
        about="Where each ad's link leads. Click workers see a change within seconds, without a restart."
      />
      <Card
        title="Import"
        hint="NDJSON or CSV with ad_id, advertiser_id, campaign_id and target_url. One wrong line and nothing is imported."
      >
        <Import onDone={() => setRound(round + 1)} />
      </Card>
      <Ads round={round} />
    </>
  );
}

function Import({ onDone }: { onDone: () => void }) {
  const { api } = useApp();
  const id = useId();
  const [file, setFile] = useState<File>();
  const run = async (onProgress: (progress: ActionProgress) => void): Promise<Imported> => {
    if (file === undefined) return {};
    const type = file.name.endsWith('.csv') ? 'text/csv' : 'application/x-ndjson';
    const result = await api.action<Imported>('/v1/admin/ads', { body: file, type }, onProgress);
    onDone();
    return result;
  };
  return (
    <div class="inline-form">
      <div class="field">
        <label for={id}>File</label>
        <input
          id={id}
          type="file"
          accept=".ndjson,.jsonl,.json,.csv"
          onChange={(event) => setFile(event.currentTarget.files?.[0])}
        />
      </div>
      <ActionPanel
        action={file === undefined ? 'Import' : `Import ${bytes(file.size)}`}
        kind="primary"
        disabled={file === undefined}
        run={run}
        result={(result) => <Note tone="good">{importedText(result)}</Note>}
      />
    </div>
  );
}

function importedText({ rows, added, changed, unchanged }: Imported): string {
  const parts = Object.entries({ added, changed, unchanged }).flatMap(([what, value]) =>
    value === undefined ? [] : [`${count(value)} ${what}`],
  );
  return `${rows === undefined ? 'Imported' : `${count(rows)} ads`}: ${parts.join(', ')}.`;
}

const COLUMNS: readonly Column<AdRow>[] = [
  { head: 'Ad', kind: 'code', cell: (ad) => ad.ad_id, isRowHead: true },
  { head: 'Campaign', kind: 'code', cell: (ad) => ad.campaign_id },
  { head: 'Advertiser', kind: 'code', cell: (ad) => ad.advertiser_id },
  {
    head: 'Leads to',
    // Text and no link: what stands here was typed by somebody else.
    cell: (ad) => (
      <span class="clip" title={ad.target_url}>
        {ad.target_url}
      </span>
    ),
  },
];

function Ads({ round }: { round: number }) {
  const { api } = useApp();
  const { advertiser, advertiserParams } = useScope();
  const pages = usePages(`${advertiser} ${round}`);
  const params = { ...advertiserParams, limit: PAGE_ROWS, after: pages.cursor };
  const query = useQuery(
    JSON.stringify([params, round]),
    (signal) =>
      api.get<{ ads: AdRow[]; next_cursor: string | null }>('/v1/admin/ads', { params, signal }),
    { keep: true },
  );
  const whose = advertiser === undefined ? 'Ads of all advertisers' : `Ads of ${advertiser}`;
  return (
    <Card title={whose}>
      <Loaded query={query}>
        {({ ads, next_cursor }) => (
          <>
            <Table
              caption={whose}
              columns={COLUMNS}
              rows={ads}
              keyOf={(ad) => ad.ad_id}
              empty="No ads."
              emptyHint="Import a file above."
            />
            <Pager
              page={pages.page}
              hasNext={next_cursor !== null}
              onPrevious={pages.previous}
              onNext={() => pages.next(next_cursor)}
            />
          </>
        )}
      </Loaded>
    </Card>
  );
}
