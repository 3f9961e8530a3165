/** Prometheus metrics of what the ledger stores: how far the archive is behind, and room on the disk. */
import { statfs } from 'node:fs/promises';
import { Gauge, type Registry } from 'prom-client';
import type { LedgerView } from './ledger-view.ts';
import { appendedAtMsOf } from './log-age.ts';
import { perScrape } from './per-scrape.ts';

export function addStorageMetrics(registry: Registry, ledger: () => LedgerView): void {
  const registers = [registry];
  new Gauge({
    name: 'clickledger_archive_lag_seconds',
    help: 'Age of the oldest record of the log that is not archived yet; 0 when all are.',
    registers,
    async collect() {
      const nowMs = ledger().parts.clock();
      this.set(Math.max(0, nowMs - (await oldestUnarchivedAtMs(ledger(), nowMs))) / 1_000);
    },
  });
  new Gauge({
    name: 'clickledger_archive_stopped_partitions',
    help: 'Partitions whose archiving has stopped for a reason that does not pass.',
    registers,
    collect() {
      const { partitions } = ledger().parts.archiver.status();
      this.set(partitions.filter(({ stopped }) => stopped !== null).length);
    },
  });
  new Gauge({
    name: 'clickledger_ledger_log_healthy',
    help: '1 while the log takes what is ingested and redriven.',
    registers,
    collect() {
      this.set(ledger().parts.writer.healthy ? 1 : 0);
    },
  });
  new Gauge({
    name: 'clickledger_log_lost_records',
    help: 'Acknowledged records that the log lacked when it was opened last.',
    registers,
    collect() {
      this.set(ledger().parts.lostRecords);
    },
  });
  addDiskMetrics(registry, ledger);
}

async function oldestUnarchivedAtMs({ parts }: LedgerView, nowMs: number): Promise<number> {
  const { reader, manifest } = parts;
  let oldestMs = nowMs;
  for (const partition of await reader.partitions()) {
    const { nextOffset } = manifest.archivedUpTo(partition);
    const atMs = await appendedAtMsOf(reader, await reader.range(partition), nextOffset);
    oldestMs = Math.min(oldestMs, atMs ?? nowMs);
  }
  return oldestMs;
}

function addDiskMetrics(registry: Registry, ledger: () => LedgerView): void {
  const disk = perScrape(() => statfs(ledger().parts.paths.root));
  new Gauge({
    name: 'clickledger_data_disk_bytes',
    help: 'Size of the disk that the data folder lies on.',
    registers: [registry],
    async collect() {
      const { bsize, blocks } = await disk();
      this.set(bsize * blocks);
    },
  });
  new Gauge({
    name: 'clickledger_data_disk_free_bytes',
    help: 'What is free on it, for the user that the product runs as.',
    registers: [registry],
    async collect() {
      const { bsize, bavail } = await disk();
      this.set(bsize * bavail);
    },
  });
}
