/**
 * Something a page loads: shown while fresh data is fetched, polled while it still changes, left alone while nobody
 * looks. A key names what is loaded; another key forgets the old value, the same key keeps it.
 */
import { useEffect, useRef, useState } from 'preact/hooks';

export interface Resource<T> {
  readonly data: T | null;
  readonly error: Error | null;
  /** Nothing to show yet. */
  readonly loading: boolean;
  reload(): void;
}

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
): Resource<T> {
  const [held, setHeld] = useState<Held<T>>({ key: null, data: null, error: null });
  const [turn, setTurn] = useState(0);
  const calls = useRef({ load, every });
  calls.current = { load, every };

  useEffect(() => {
    if (key === null) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let last: T | null = null;

    const look = async (): Promise<void> => {
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
      const wait = calls.current.every(last, error);
      if (wait !== null) timer = setTimeout(lookWhenSeen, wait);
    };
    const lookWhenSeen = (): void => {
      if (document.visibilityState === 'visible') void look();
      else document.addEventListener('visibilitychange', () => void look(), { once: true, signal: stop.signal });
    };
    void look();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, turn]);

  const current = held.key === key;
  return {
    data: current ? held.data : null,
    error: current ? held.error : null,
    loading: key !== null && (!current || (held.data === null && held.error === null)),
    reload: () => setTurn((before) => before + 1),
  };
}
