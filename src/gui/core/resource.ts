/**
 * Something a page loads: shown while fresh data is fetched, polled while it still changes, left alone while nobody
 * looks. A key names what is loaded; another key forgets the old value, the same key keeps it. What grows has a turn
 * beside its key: at another turn it is looked at again, but never before the look under way has ended and not more
 * often than a reader can follow, so that a busy run is not hidden by its own events.
 */
import { useEffect, useRef, useState } from 'preact/hooks';
import { isAway } from './api.ts';

export interface Resource<T> {
  readonly data: T | null;
  readonly error: Error | null;
  /** Nothing to show yet. */
  readonly loading: boolean;
  reload(): void;
}

/** Between looks at what grows. */
const GROWTH_MS = 500;
/** Until a server that is away is asked again. */
const AWAY_MS = 3_000;

interface Held<T> {
  readonly key: string | null;
  readonly data: T | null;
  readonly error: Error | null;
}

/** `every` gives the milliseconds until the next look, or null for none. A null key loads nothing. */
export function useResource<T>(
  key: string | null,
  load: (signal: AbortSignal) => Promise<T>,
  every: (data: T | null, error: Error | null) => number | null = () => null,
  turn: string | number = '',
): Resource<T> {
  const [held, setHeld] = useState<Held<T>>({ key: null, data: null, error: null });
  const [reloads, setReloads] = useState(0);
  const calls = useRef({ load, every, turn });
  calls.current = { load, every, turn };
  const onTurn = useRef<(() => void) | null>(null);

  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last: T | null = null;
    let looking = false;
    let lookedAt = 0;
    let lookedTurn: string | number = '';

    const look = async (): Promise<void> => {
      if (looking) return;
      looking = true;
      lookedAt = performance.now();
      lookedTurn = calls.current.turn;
      let error: Error | null = null;
      try {
        last = await calls.current.load(stop.signal);
        if (stop.signal.aborted) return;
        const data = last;
        setHeld({ key, data, error: null });
      } catch (caught) {
        if (stop.signal.aborted) return;
        error = caught instanceof Error ? caught : new Error(String(caught));
        const seen = error;
        setHeld((before) => ({ key, data: before.key === key ? before.data : null, error: seen }));
      }
      looking = false;
      const wait = isAway(error)
        ? AWAY_MS
        : calls.current.turn === lookedTurn
          ? calls.current.every(last, error)
          : untilNext();
      if (wait !== null) timer = setTimeout(lookWhenSeen, wait);
    };
    const untilNext = (): number => Math.max(0, lookedAt + GROWTH_MS - performance.now());
    const lookWhenSeen = (): void => {
      if (document.visibilityState === 'visible') void look();
      else document.addEventListener('visibilitychange', () => void look(), { once: true, signal: stop.signal });
    };
    onTurn.current = () => {
      if (looking || calls.current.turn === lookedTurn) return;
      clearTimeout(timer);
      timer = setTimeout(lookWhenSeen, untilNext());
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
      onTurn.current = null;
    };
  }, [key, reloads]);
  useEffect(() => onTurn.current?.(), [turn]);

  const current = held.key === key;
  return {
    data: current ? held.data : null,
    error: current ? held.error : null,
    loading: key !== null && (!current || (held.data === null && held.error === null)),
    reload: () => setReloads((before) => before + 1),
  };
}
