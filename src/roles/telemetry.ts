/** Tracing of one process, when the configuration wants it: sampler, queue, exporter, and their end. */
import type { Config } from '../config/schema.ts';
import type { Clock } from '../platform/clock.ts';
import type { Logger } from '../platform/logger.ts';
import { createClickTracer } from '../telemetry/click-tracer.ts';
import { createCountTracer } from '../telemetry/count-tracer.ts';
import { Sampler } from '../telemetry/identity.ts';
import type { ClickTracer, CountTracer } from '../telemetry/port.ts';
import { SpanQueue } from '../telemetry/span-queue.ts';
import { VERSION } from '../version.ts';

const EXPORT_TIMEOUT_MS = 2_000;
const CLOSE_MS = 2_000;

export interface TelemetryOptions {
  readonly config: Config['telemetry'];
  /** `click` or `ledger`; names the service. */
  readonly service: string;
  /** Tells processes of one service apart. */
  readonly instance: string;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface Telemetry {
  readonly counts: SpanQueue['counts'];
  clickTracer(): ClickTracer;
  /** One for each counter: it holds what that counter has not committed. */
  countTracer(): CountTracer;
  /** Sends what waits; ends within two seconds. */
  close(): Promise<void>;
}

/**
 * Null when tracing is off; the exporter's packages are not even loaded then. Null as well when it cannot
 * be opened: clicks are taken without it.
 */
export async function openTelemetry(options: TelemetryOptions): Promise<Telemetry | null> {
  const { config, logger } = options;
  if (config.otlpUrl === '' || config.sampleRatio === 0) return null;
  try {
    return await open(options);
  } catch (error) {
    logger.error({ err: error }, 'tracing cannot be opened and is off');
    return null;
  }
}

async function open(options: TelemetryOptions): Promise<Telemetry> {
  const { config, service, instance, clock, logger } = options;
  const { createOtlpExporter } = await import('../telemetry/otlp/exporter.ts');
  const sink = new SpanQueue({
    exporter: createOtlpExporter({
      url: config.otlpUrl,
      timeoutMs: EXPORT_TIMEOUT_MS,
      serviceName: `clickledger-${service}`,
      serviceVersion: VERSION,
      instanceId: instance,
    }),
    // The message alone: the exporter's error carries the collector's answer, whatever that is.
    onFailure: (error, spans) =>
      logger.warn({ reason: (error as Error).message, spans }, 'traces could not be sent'),
  });
  const sampler = new Sampler(config.sampleRatio);
  const onBug = (error: unknown): void =>
    logger.error({ err: error }, 'tracing has failed and is off until the next start');
  return {
    counts: sink.counts,
    clickTracer: () => createClickTracer({ sampler, sink, onBug }),
    countTracer: () =>
      createCountTracer({
        sampler,
        sink,
        clock,
        onBug,
        onDropped: () => {
          sink.counts.dropped += 1;
        },
      }),
    close: () => sink.close(CLOSE_MS),
  };
}
