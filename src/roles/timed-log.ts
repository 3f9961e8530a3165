/** A log writer that reports how long each append took until it was durable. */
import type { AppendDone, ClickLogWriter } from '../log/port.ts';
import { monotonicMs } from '../platform/clock.ts';

export function timedLog(log: ClickLogWriter, report: (ms: number) => void): ClickLogWriter {
  return {
    partition: log.partition,
    get healthy() {
      return log.healthy;
    },
    append(bytes: Buffer, length: number, done: AppendDone): void {
      const startedMs = monotonicMs();
      log.append(bytes, length, (error) => {
        report(monotonicMs() - startedMs);
        done(error);
      });
    },
    close: () => log.close(),
  };
}
