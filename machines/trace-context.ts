/**
 * Which trace a run belongs to (api 1.10, 7.3), as W3C writes it. Ids of executions and commands follow from what is
 * known everywhere, so processes that never speak with each other name the same span.
 */

export interface TraceContext {
  /** 32 and 16 hexadecimal digits, not all zero. */
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** Hexadecimal digits of a text, at least 32 and spread evenly. */
export type Digest = (text: string) => string;

const FORM = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Null for what is not a `traceparent`: it came from outside and is then ignored, as the standard asks. */
export function readTraceparent(text: unknown): TraceContext | null {
  const [, version, traceId, spanId, flags, more] = typeof text === 'string' ? (FORM.exec(text) ?? []) : [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  if (version === '00' && more !== undefined) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

export function writeTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
}

/** The trace of a run nobody brought one for: that of its root execution. */
export function traceIdOf(rootExecutionId: number, digest: Digest): string {
  return digest(`callboard trace ${rootExecutionId}`).slice(0, 32);
}

export function executionSpanId(executionId: number, digest: Digest): string {
  return digest(`callboard execution ${executionId}`).slice(0, 16);
}

export function commandSpanId(commandId: number, digest: Digest): string {
  return digest(`callboard command ${commandId}`).slice(0, 16);
}

/** Whether a share of all traces has this one; every process that is told the same share agrees. */
export function isInShare(traceId: string, share: number): boolean {
  return Number.parseInt(traceId.slice(-13), 16) < share * 2 ** 52;
}
