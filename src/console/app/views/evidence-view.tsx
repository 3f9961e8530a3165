/** The raw clicks behind an ad's number, one by one, and where each of them is kept. */
import { useState } from 'preact/hooks';
import type { Outcome, RawClick, RawClicksAnswer } from '../api/types.ts';
import { Button } from '../components/button.tsx';
import { Badge, Card, PageHead, type Tone } from '../components/card.tsx';
import { Form, TextField } from '../components/field.tsx';
import { Pager } from '../components/pager.tsx';
import { Empty, Loaded } from '../components/states.tsx';
import { type Column, Table } from '../components/table.tsx';
import { usePages } from '../components/use-pages.ts';
import { capital, momentOrNone, NONE, secondText } from '../format.ts';
import { useApp, useNavigation, useScope } from '../state/context.ts';
import { spanOf } from '../state/range.ts';
import { useQuery } from '../state/use-query.ts';
import { RangeBar } from './clicks/range-bar.tsx';

const PAGE_ROWS = 50;

export const OUTCOME_TONES: Readonly<Record<Outcome, Tone>> = {
  counted: 'good',
  duplicate: 'quiet',
  not_billable: 'quiet',
  invalid: 'bad',
};

export const outcomeText = (outcome: string): string => capital(outcome.replaceAll('_', ' '));

export function EvidenceView() {
  const { route } = useApp();
  const { href } = useNavigation();
  const adId = route.query.ad ?? '';
  const dispute = href('/disputes', { ad: adId, open: 'new' });
  return (
    <>
      <PageHead
        title="Evidence"
        about="Every click that was logged on an ad, what became of it, and where its record lies in the archive."
        actions={
          adId === '' ? undefined : (
            <a class="button button-plain" href={dispute}>
              Dispute these clicks
            </a>
          )
        }
      />
      <AdField adId={adId} key={adId} />
      <RangeBar isCut={false} />
      {adId === '' ? (
        <Empty title="Which ad?">Type its id, or choose "Raw clicks" of an ad under Clicks.</Empty>
      ) : (
        <RawClicks adId={adId} />
      )}
    </>
  );
}

function AdField({ adId }: { adId: string }) {
  const { setQuery } = useNavigation();
  const [typed, setTyped] = useState(adId);
  return (
    <Form
      class="inline-form"
      label="Ad"
      onSubmit={() => setQuery({ ad: typed.trim() || undefined })}
    >
      <TextField label="Ad id" value={typed} onValue={setTyped} />
      <Button type="submit">Show clicks</Button>
    </Form>
  );
}

function RawClicks({ adId }: { adId: string }) {
  const { api, clock, route } = useApp();
  const { zone, advertiserParams } = useScope();
  const [nowMs] = useState(clock);
  const asked = { ...spanOf(route.query, nowMs, zone), timezone: zone, ...advertiserParams };
  const pages = usePages(JSON.stringify([adId, asked]));
  const params = { ...asked, limit: PAGE_ROWS, cursor: pages.cursor };
  const path = `/v1/ads/${encodeURIComponent(adId)}/clicks`;
  const query = useQuery(
    JSON.stringify([adId, params]),
    (signal) => api.get<RawClicksAnswer>(path, { params, signal }),
    { keep: true },
  );
  return (
    <Card title={`Raw clicks of ${adId}`}>
      <Loaded query={query} lines={8}>
        {(answer) => (
          <>
            <p class="hint">
              Archived until {momentOrNone(answer.archived_until, zone)}; final until{' '}
              {momentOrNone(answer.final_until, zone)}. Newer clicks are counted already and listed
              here once they are archived.
            </p>
            <Table
              caption={`Raw clicks of ${adId}`}
              columns={columnsIn(zone)}
              rows={answer.clicks}
              keyOf={({ evidence }) => `${evidence.partition} ${evidence.offset}`}
              empty="No archived clicks in this range."
            />
            <Pager
              page={pages.page}
              hasNext={answer.next_cursor !== null}
              onPrevious={pages.previous}
              onNext={() => pages.next(answer.next_cursor)}
            />
          </>
        )}
      </Loaded>
    </Card>
  );
}

function columnsIn(zone: string): Column<RawClick>[] {
  return [
    { head: 'Clicked at', cell: (click) => secondText(click.clicked_at, zone), isRowHead: true },
    { head: 'Outcome', cell: (click) => <OutcomeCell click={click} /> },
    { head: 'Impression', kind: 'code', cell: (click) => click.impression_id },
    { head: 'From', cell: (click) => `${click.country} · ${capital(click.device)}` },
    { head: 'Address', kind: 'code', cell: (click) => click.ip || NONE },
    { head: 'User agent', cell: (click) => <Long text={click.user_agent} /> },
    { head: 'Referrer', cell: (click) => <Long text={click.referer} /> },
    { head: 'Record', kind: 'code', cell: (click) => <Place click={click} /> },
  ];
}

function OutcomeCell({ click }: { click: RawClick }) {
  const { outcome, duplicate_of, verdict } = click;
  const why = [
    outcome === 'not_billable' ? click.class : undefined,
    duplicate_of === null ? undefined : `of ${duplicate_of.partition}:${duplicate_of.offset}`,
    outcome === 'invalid' ? verdict?.reason : undefined,
  ].filter((each) => each !== undefined);
  return (
    <>
      <Badge tone={OUTCOME_TONES[outcome] ?? 'quiet'}>{outcomeText(outcome)}</Badge>
      {why.length > 0 && <span class="cell-note">{why.join(', ')}</span>}
    </>
  );
}

function Place({ click }: { click: RawClick }) {
  const { object, partition, offset } = click.evidence;
  return (
    <span title={object}>
      {partition}:{offset}
      <span class="cell-note clip">{object}</span>
    </span>
  );
}

function Long({ text }: { text: string | null }) {
  if (text === null || text === '') return <>{NONE}</>;
  return (
    <span class="clip" title={text}>
      {text}
    </span>
  );
}
