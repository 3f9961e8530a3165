/** A dispute as the API shows it. */
import type { Principal } from '../auth/tokens.ts';
import type { Actor, Dispute } from '../disputes/port.ts';
import { formatInZone } from '../warehouse/buckets.ts';
import { instantOrNull } from './metrics-format.ts';

export function disputeJson(dispute: Dispute, reader: Principal): object {
  const { opened, closed, timezone } = dispute;
  return {
    id: dispute.id,
    advertiser_id: dispute.advertiserId,
    ad_id: dispute.adId,
    from: formatInZone(dispute.fromMs, timezone),
    to: formatInZone(dispute.toMs, timezone),
    timezone,
    reason: dispute.reason,
    state: closed?.state ?? 'open',
    resolution: closed?.resolution ?? null,
    opened_at: instantOrNull(opened.atMs),
    closed_at: closed === null ? null : instantOrNull(closed.atMs),
    note: closed?.note ?? null,
    history: [
      step('opened', { ...opened, note: dispute.reason, verdicts: 0 }, reader),
      ...(closed === null ? [] : [step(closed.resolution ?? 'withdrawn', closed, reader)]),
    ],
  };
}

interface Step {
  readonly by: Actor;
  readonly atMs: number;
  readonly note: string;
  readonly verdicts: number;
}

function step(name: string, { by, atMs, note, verdicts }: Step, reader: Principal): object {
  return { step: name, by: shownActor(by, reader), at: instantOrNull(atMs), note, verdicts };
}

/** Which of the operators it was is not the advertiser's business. */
function shownActor({ tokenId, scope }: Actor, reader: Principal): string {
  return scope === 'admin' && reader.scope !== 'admin' ? 'operator' : tokenId;
}
