/**
 * Ships the spools of a data folder whose click workers are not there to do it: before a machine is taken
 * down for good, or beside workers that come and go. Needs the topic, and nothing else of the product.
 */
import type { Config } from '../config/schema.ts';
import { monotonicMs } from '../platform/clock.ts';
import { LedgerError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import { type RoleContext, type RoleWork, runRole } from './run-role.ts';
import type { SpoolShippers } from './spool-shippers.ts';

const LOOK_INTERVAL_MS = 2_000;
const TELL_INTERVAL_MS = 10_000;
const DRAIN_POLL_MS = 50;

export function runShipper(config: Config, stop: AbortSignal): Promise<void> {
  if (config.log.kind !== 'kafka') {
    throw new LedgerError('spool_none', 'with log.kind = "disk" there is no spool to ship');
  }
  return runRole(config, { role: 'shipper' }, stop, openShipper);
}

async function openShipper(context: RoleContext): Promise<RoleWork> {
  const { config, paths, clock, logger, registry } = context;
  const { kafka } = config.log;
  const { openPublisher } = await import('./kafka-publisher.ts');
  const { SpoolShippers } = await import('./spool-shippers.ts');
  const { addShipperMetrics } = await import('./kafka-metrics.ts');
  const clientId = 'clickledger-shipper';
  const open = await openPublisher({ kafka, clientId, clock, logger, refusesTopic: true });
  const spools = new SpoolShippers({
    ...{ paths, publisher: open.publisher, logger, lookIntervalMs: LOOK_INTERVAL_MS },
    shipRecordsPerSecond: kafka.shipRecordsPerSecond,
    wants: () => true,
  });
  await spools.start();
  addShipperMetrics(registry, () => spools.shippers, clock);
  const telling = setInterval(() => void tell(spools, logger), TELL_INTERVAL_MS);
  return {
    waitsFor: () => spools.problem?.message ?? null,
    drain: () => drain(spools, config.click.drainMs, logger),
    close: async () => {
      clearInterval(telling);
      await spools.close();
      await open.close();
    },
  };
}

async function tell(spools: SpoolShippers, logger: Logger): Promise<void> {
  try {
    const records = await spools.backlogRecords();
    const { length: held } = spools.shippers;
    if (records > 0) logger.info({ records, spools: held }, 'records left in the spools');
  } catch (error) {
    logger.warn({ err: error }, 'what is left in the spools cannot be seen');
  }
}

/** Until the spools are empty; what is left then waits for the next start. */
async function drain(spools: SpoolShippers, graceMs: number, logger: Logger): Promise<void> {
  const untilMs = monotonicMs() + graceMs;
  let records = await spools.backlogRecords();
  while (records > 0 && monotonicMs() < untilMs) {
    await Bun.sleep(DRAIN_POLL_MS);
    records = await spools.backlogRecords();
  }
  if (records > 0) logger.warn({ records }, 'left in the spools');
}
