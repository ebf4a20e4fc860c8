/**
 * The traces of a process (api 7.3), off unless there is a collector. Satisfies the `Tracer` port of the actors by shape;
 * the worker uses the same one.
 */
import { createHash, randomBytes } from 'node:crypto';
import { isInShare } from '../../machines/trace-context.ts';
import { createExporter } from './exporter.ts';
import type { SpanRecord } from './otlp.ts';

export interface Tracing {
  readonly isOn: boolean;
  /** Milliseconds since the epoch, monotonic within the process. */
  now(): number;
  newTraceId(): string;
  newSpanId(): string;
  digest(text: string): string;
  isSampled(traceId: string): boolean;
  record(span: SpanRecord): void;
  /** Sends what is left. Idempotent. */
  close(): Promise<void>;
}

export interface TracingConfig {
  /** Null: no traces. */
  readonly otlpEndpoint: string | null;
  /** `name=value`, comma list. */
  readonly otlpHeaders: string | null;
  readonly traceSampleRatio: number;
}

export interface TracingParts {
  /** What this process is to a reader of traces: `callboard-server`, `callboard-worker`. */
  readonly service: string;
  readonly version: string;
  readonly meter: { count(name: string, labels?: Readonly<Record<string, string>>, by?: number): void };
}

/** A tracer that is off. */
export const noTracing: Tracing = {
  isOn: false,
  now: () => 0,
  newTraceId: () => '',
  newSpanId: () => '',
  digest: () => '',
  isSampled: () => false,
  record: () => {},
  close: async () => {},
};

export function createTracing(config: TracingConfig, { service, version, meter }: TracingParts): Tracing {
  const { otlpEndpoint: endpoint, otlpHeaders, traceSampleRatio } = config;
  if (endpoint === null) return noTracing;
  const exporter = createExporter({
    endpoint,
    headers: readHeaders(otlpHeaders ?? ''),
    resource: { 'service.name': service, 'service.version': version, 'process.pid': process.pid },
    onDropped: (count, reason) => meter.count('svc_trace_spans_dropped_total', { reason }, count),
  });
  return {
    isOn: true,
    now: () => performance.timeOrigin + performance.now(),
    newTraceId: () => randomBytes(16).toString('hex'),
    newSpanId: () => randomBytes(8).toString('hex'),
    digest: (text) => createHash('sha256').update(text).digest('hex'),
    isSampled: (traceId) => isInShare(traceId, traceSampleRatio),
    record: (span) => exporter.add(span),
    close: () => exporter.close(),
  };
}

/** As `OTEL_EXPORTER_OTLP_HEADERS` is written: `a=b,c=d`, values percent-encoded where they must be. */
export function readHeaders(text: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const pair of text.split(',')) {
    const [, name = '', value = ''] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    if (name !== '' && value !== '') headers[name.toLowerCase()] = decoded(value);
  }
  return headers;
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
