/** Says what became of an hour. */
import type { Logger } from '../platform/logger.ts';
import type { HourResult } from '../reconcile/reconciler.ts';

export function logHour({ hour: state, kind, driftAlert }: HourResult, logger: Logger): void {
  const { hourMs, revision, counted, driftMax } = state;
  const hour = new Date(hourMs).toISOString();
  logger.info({ hour, revision, counted, driftMax, kind }, 'hour recounted');
  if (driftAlert) logger.error({ hour, driftMax }, 'live and final differ too much');
}
