/**
 * Sends spans as OTLP/HTTP JSON, with the OpenTelemetry project's exporter. The only place that knows
 * its packages; it is loaded only when tracing is on.
 */
import { SpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { LedgerError } from '../../platform/errors.ts';
import type { Span, SpanExporter } from '../port.ts';

type ReadableSpan = Parameters<OTLPTraceExporter['export']>[0][number];
type HrTime = ReadableSpan['startTime'];

export interface OtlpOptions {
  /** The collector's address, e.g. `http://localhost:4318`; `/v1/traces` is added when it is missing. */
  readonly url: string;
  /** For one batch, its repetitions included. */
  readonly timeoutMs: number;
  readonly serviceName: string;
  readonly serviceVersion: string;
  readonly instanceId: string;
}

const KINDS = {
  server: SpanKind.SERVER,
  internal: SpanKind.INTERNAL,
  consumer: SpanKind.CONSUMER,
} as const;

export function createOtlpExporter(options: OtlpOptions): SpanExporter {
  const exporter = new OTLPTraceExporter({
    url: tracesUrl(options.url),
    timeoutMillis: options.timeoutMs,
  });
  const common = {
    resource: resourceFromAttributes({
      'service.name': options.serviceName,
      'service.version': options.serviceVersion,
      'service.instance.id': options.instanceId,
    }),
    instrumentationScope: { name: 'clickledger', version: options.serviceVersion },
  };
  return {
    export: (spans) =>
      new Promise((resolve, reject) => {
        const readable = spans.map((span) => ({ ...common, ...readableOf(span) }));
        exporter.export(readable, ({ code, error }) => {
          if (code === 0) return resolve();
          const message = `${spans.length} spans were not taken`;
          reject(error ?? new LedgerError('spans_refused', message, { kind: 'retry' }));
        });
      }),
    close: () => exporter.shutdown(),
  };
}

export function tracesUrl(url: string): string {
  const trimmed = url.replace(/\/+$/, '');
  return trimmed.endsWith('/v1/traces') ? trimmed : `${trimmed}/v1/traces`;
}

function readableOf(span: Span): Omit<ReadableSpan, 'resource' | 'instrumentationScope'> {
  const { traceId, spanId, parentSpanId, startMs, endMs, error } = span;
  const context = (id: string) => ({ traceId, spanId: id, traceFlags: TraceFlags.SAMPLED });
  return {
    name: span.name,
    kind: KINDS[span.kind],
    spanContext: () => context(spanId),
    ...(parentSpanId === null ? {} : { parentSpanContext: context(parentSpanId) }),
    startTime: hrTime(startMs),
    endTime: hrTime(endMs),
    duration: hrTime(endMs - startMs),
    ended: true,
    status:
      error === null
        ? { code: SpanStatusCode.UNSET }
        : { code: SpanStatusCode.ERROR, message: error },
    attributes: { ...span.attributes },
    links: [],
    events: [],
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function hrTime(timeMs: number): HrTime {
  const seconds = Math.floor(timeMs / 1_000);
  return [seconds, Math.round((timeMs - seconds * 1_000) * 1e6)];
}
