/** Spans as OTLP writes them in JSON: ids in hexadecimal, instants in nanoseconds as text, numbers as text where whole. */

export interface SpanRecord {
  readonly name: string;
  readonly kind?: 'internal' | 'server' | 'client';
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | null;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly events?: readonly { readonly name: string; readonly atMs: number; readonly attributes?: Attributes }[];
  readonly failed?: boolean;
}

export type Attributes = Readonly<Record<string, string | number | boolean>>;

const KINDS = { internal: 1, server: 2, client: 3 } as const;
const STATUS_UNSET = 0;
const STATUS_ERROR = 2;
/** Names of steps and paths are the author's; a span stays small whatever they wrote. */
const TEXT_MAX = 256;

/** The body of one export. */
export function exportBody(resource: Attributes, spans: readonly SpanRecord[]): object {
  return {
    resourceSpans: [
      {
        resource: { attributes: attributesOf(resource) },
        scopeSpans: [{ scope: { name: 'callboard' }, spans: spans.map(spanOf) }],
      },
    ],
  };
}

function spanOf(span: SpanRecord): object {
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    ...(span.parentSpanId === null ? {} : { parentSpanId: span.parentSpanId }),
    name: span.name.slice(0, TEXT_MAX),
    kind: KINDS[span.kind ?? 'internal'],
    startTimeUnixNano: nanoseconds(span.startMs),
    endTimeUnixNano: nanoseconds(Math.max(span.startMs, span.endMs)),
    attributes: attributesOf(span.attributes),
    events: (span.events ?? []).map(({ name, atMs, attributes = {} }) => ({
      name,
      timeUnixNano: nanoseconds(atMs),
      attributes: attributesOf(attributes),
    })),
    status: { code: span.failed === true ? STATUS_ERROR : STATUS_UNSET },
  };
}

function attributesOf(attributes: Attributes): object[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: typed(value) }));
}

function typed(value: string | number | boolean): object {
  if (typeof value === 'string') return { stringValue: value.slice(0, TEXT_MAX) };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/** A double has no room for nanoseconds since the epoch, so the two halves are joined as text. */
function nanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  const rest = Math.min(999_999, Math.floor((ms - whole) * 1_000_000));
  return `${whole}${String(rest).padStart(6, '0')}`;
}
