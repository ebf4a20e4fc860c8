/**
 * Choosing a stretch of a timeline: by dragging over the lanes, or by keys (+ and - zoom, arrows move, 0 shows all).
 * What is chosen lies in the address, as milliseconds since the beginning.
 */
import { useState } from 'preact/hooks';
import { query, setQuery } from '../core/router.ts';
import { instantAt, type Stretch, type TimeScale } from './time-scale.ts';
import { SHORTEST_MS, stretchForKey, zoomed } from './zoom.ts';

/** A drag of fewer pixels is a click. */
const DRAG_PX = 6;

/** The chosen part of the whole, or the whole. */
export function chosenStretch(whole: Stretch): Stretch {
  const [from, to] = [query.value.get('from'), query.value.get('to')].map((each) =>
    each === null || each === '' ? Number.NaN : Number(each),
  );
  if (from === undefined || to === undefined || !(to > from)) return whole;
  const stretch = { from: Math.max(whole.from, whole.from + from), to: Math.min(whole.to, whole.from + to) };
  return stretch.to - stretch.from < 1 ? whole : stretch;
}

export function chooseStretch(whole: Stretch, stretch: Stretch | null): void {
  const all = stretch === null || (stretch.from <= whole.from && stretch.to >= whole.to);
  setQuery({
    from: all ? null : String(Math.max(0, Math.round(stretch.from - whole.from))),
    to: all ? null : String(Math.round(Math.min(stretch.to, whole.to) - whole.from)),
  });
}

interface Drag {
  readonly startX: number;
  readonly nowX: number;
  readonly lane: DOMRect;
  readonly area: DOMRect;
}

/** Handlers for the element around the lanes, and the rectangle that is being drawn. */
export function useBrush(whole: Stretch, shown: Stretch, scale: TimeScale) {
  const [drag, setDrag] = useState<Drag | null>(null);
  const onPointerDown = (event: PointerEvent & { readonly currentTarget: HTMLElement }): void => {
    const lane = event.target instanceof Element ? event.target.closest('.lane') : null;
    if (event.button !== 0 || lane === null) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    setDrag({
      startX: event.clientX,
      nowX: event.clientX,
      lane: lane.getBoundingClientRect(),
      area: event.currentTarget.getBoundingClientRect(),
    });
  };
  const onPointerMove = (event: PointerEvent): void => {
    if (drag !== null) setDrag({ ...drag, nowX: event.clientX });
  };
  const onPointerUp = (): void => {
    if (drag === null) return;
    setDrag(null);
    if (Math.abs(drag.nowX - drag.startX) < DRAG_PX) return;
    const at = (x: number) =>
      instantAt(scale, shown, Math.min(1, Math.max(0, (x - drag.lane.left) / Math.max(1, drag.lane.width))));
    const [from, to] = [at(Math.min(drag.startX, drag.nowX)), at(Math.max(drag.startX, drag.nowX))];
    chooseStretch(whole, to - from < SHORTEST_MS ? zoomed(whole, { from, to: to + 1 }, 1) : { from, to });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const next = stretchForKey(event.key, whole, shown);
    if (next === null) return;
    event.preventDefault();
    chooseStretch(whole, next);
  };
  const clamped = (x: number) => Math.min(drag?.lane.right ?? 0, Math.max(drag?.lane.left ?? 0, x));
  const box =
    drag === null || Math.abs(drag.nowX - drag.startX) < DRAG_PX
      ? null
      : {
          left: `${Math.min(clamped(drag.startX), clamped(drag.nowX)) - drag.area.left}px`,
          width: `${Math.abs(clamped(drag.nowX) - clamped(drag.startX))}px`,
        };
  return {
    handlers: { onPointerDown, onPointerMove, onPointerUp, onPointerCancel: () => setDrag(null), onKeyDown },
    box,
  };
}
