/** The frames of a fold: the context at each of them, and what one of them changed. Patches are JSON merge patches. Pure. */
import type { Json, JsonMap, TraceFrame } from '../core/wire.ts';

export interface Change {
  /** `run.open.18.status`. */
  readonly path: string;
  readonly before: Json | undefined;
  readonly after: Json | undefined;
}

/** The context before and at the frame with this place in the list. */
export function contextAt(
  frames: readonly TraceFrame[],
  index: number,
): { readonly before: JsonMap; readonly after: JsonMap } {
  let from = index;
  while (from > 0 && frames[from]?.keyframe !== true) from--;
  const previousKey = from === index && index > 0 ? contextAt(frames, index - 1).after : {};
  let before: JsonMap = previousKey;
  let after: JsonMap = {};
  for (let at = from; at <= index; at++) {
    if (at > from) before = after;
    after = applyPatch(at === from ? {} : after, frames[at]?.context_patch ?? {});
  }
  return { before, after };
}

export function applyPatch(target: JsonMap, patch: JsonMap): JsonMap {
  const merged = new Map(Object.entries(target));
  for (const [key, change] of Object.entries(patch)) {
    const before = merged.get(key);
    if (change === null) merged.delete(key);
    else merged.set(key, isMap(change) ? applyPatch(isMap(before) ? before : {}, change) : change);
  }
  return Object.fromEntries(merged);
}

/** Leaves that differ, in the order of their keys. */
export function changesBetween(before: JsonMap, after: JsonMap, path = ''): readonly Change[] {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key): readonly Change[] => {
    const at = path === '' ? key : `${path}.${key}`;
    const from = Object.hasOwn(before, key) ? before[key] : undefined;
    const to = Object.hasOwn(after, key) ? after[key] : undefined;
    if (isMap(from) && isMap(to)) return changesBetween(from, to, at);
    return JSON.stringify(from) === JSON.stringify(to) ? [] : [{ path: at, before: from, after: to }];
  });
}

/** The last frame at or before an event, in the order of the fold. */
export function frameAt(frames: readonly TraceFrame[], eventId: number): number {
  const exact = frames.findIndex((frame) => frame.event_id === eventId);
  if (exact !== -1) return exact;
  return frames.findLastIndex((frame) => frame.event_id <= eventId);
}

/** The next frame in this direction whose states differ from those of `from`. */
export function nextStateChange(frames: readonly TraceFrame[], from: number, step: 1 | -1): number {
  const states = (index: number) => frames[index]?.states.join() ?? '';
  let at = from;
  while (at + step >= 0 && at + step < frames.length) {
    at += step;
    if (states(at) !== states(at - 1)) return at;
  }
  return at;
}

export interface TraceMark {
  readonly index: number;
  readonly eventId: number;
  readonly type: string;
  readonly tone: 'completed' | 'failed' | 'cancelled' | 'running';
}

/** Frames that failed something or changed the state, failures first when there are more than `most`. */
export function marksOf(frames: readonly TraceFrame[], most: number): readonly TraceMark[] {
  const marks = frames.flatMap((frame, index): readonly TraceMark[] => {
    const failed = /(failed|error)$/.test(frame.type);
    const moved = frame.states.join() !== (frames[index - 1]?.states.join() ?? '');
    if (!failed && !moved) return [];
    const state = frame.states.at(-1) ?? '';
    const tone = failed
      ? 'failed'
      : state.endsWith('completed')
        ? 'completed'
        : state.endsWith('cancelled')
          ? 'cancelled'
          : state.endsWith('failed')
            ? 'failed'
            : 'running';
    return [{ index, eventId: frame.event_id, type: frame.type, tone }];
  });
  if (marks.length <= most) return marks;
  const failures = marks.filter((each) => each.tone === 'failed');
  const others = marks.filter((each) => each.tone !== 'failed');
  return [...failures.slice(0, most), ...others.slice(0, Math.max(0, most - failures.length))];
}

function isMap(value: Json | undefined): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
