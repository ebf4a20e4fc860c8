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

/** 512 printable characters in at most 32 members `key=value` (W3C Trace Context 3.3). */
const STATE_MAX = 512;
const STATE_MEMBERS_MAX = 32;
const MEMBER = /^[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;

/** Null for what is not a `tracestate`, which is ignored. Empty members are left out, repeated headers may be joined by a comma. */
export function readTracestate(text: unknown): string | null {
  if (typeof text !== 'string' || text.length > STATE_MAX) return null;
  const members = text.split(',').map((member) => member.trim());
  const named = members.filter((member) => member !== '');
  const fits = named.length >= 1 && named.length <= STATE_MEMBERS_MAX && named.every((member) => MEMBER.test(member));
  return fits ? named.join(',') : null;
}

/** What is kept of a trace from outside. The state belongs to those who wrote it: it is passed on and not read. */
export interface KeptTrace {
  readonly context: TraceContext | null;
  readonly state: string | null;
}

/** One text for both headers: the state stands behind the parent after a blank. Null without a valid parent. */
export function keptTraceOf(traceparent: unknown, tracestate: unknown): string | null {
  const context = readTraceparent(traceparent);
  return context === null ? null : joined(writeTraceparent(context), readTracestate(tracestate));
}

export function readKeptTrace(kept: string | null): KeptTrace {
  const blank = kept?.indexOf(' ') ?? -1;
  if (kept === null || blank < 0) return { context: readTraceparent(kept), state: null };
  const context = readTraceparent(kept.slice(0, blank));
  return { context, state: context === null ? null : readTracestate(kept.slice(blank + 1)) };
}

/** A trace text with this state. */
export function joined(traceparent: string, state: string | null): string {
  return state === null ? traceparent : `${traceparent} ${state}`;
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
