/**
 * Rows of a log by their place, newest first, loaded in pieces as they come into view. Without filters the place of an
 * event follows from its number (1, 2, 3 … without gaps), so a growing log only shifts places; with filters the server
 * pages below a bound, which is raised when events came that fit.
 */
import { get } from '../core/api.ts';
import type { EventPage, LogEvent } from '../core/wire.ts';

const PIECE = 200;
/** Between two looks for further events that fit. */
const GROWTH_MS = 1_000;

export interface EventFilters {
  readonly event_type: string;
  readonly status: string;
  readonly step: string;
  readonly q: string;
}

export interface EventSource {
  readonly total: number;
  /** It is known how many there are. */
  readonly counted: boolean;
  /** Null while it is on its way. */
  at(index: number): LogEvent | null;
  /** Where an event stands among those that are loaded; -1 elsewhere. */
  find(eventId: number): number;
  /** Loads what is missing between two places; `changed` is called when something came. */
  want(from: number, to: number): void;
  /** Another event was written. */
  grow(last: number): void;
  stop(): void;
}

export function isFiltered(filters: EventFilters): boolean {
  return Object.values(filters).some((each) => each !== '');
}

export function createEventSource(
  executionId: number,
  filters: EventFilters,
  last: number,
  changed: (error: Error | null) => void,
): EventSource {
  const path = `/api/events/${executionId}`;
  const pieces = new Map<number, readonly LogEvent[]>();
  const pending = new Set<number>();
  const filtered = isFiltered(filters);
  let bound = last;
  let newest = last;
  let total = filtered ? 0 : last;
  let counted = !filtered;
  let growth: ReturnType<typeof setTimeout> | undefined;

  const fitting = (piece: number, until: number): Promise<EventPage> =>
    get<EventPage>(path, {
      ...filters,
      order: 'desc',
      fields: 'min',
      page: piece + 1,
      page_size: PIECE,
      until_event_id: until,
    });

  const load = async (piece: number): Promise<void> => {
    pending.add(piece);
    try {
      const until = bound;
      const page = filtered
        ? await fitting(piece, until)
        : await get<EventPage>(path, {
            fields: 'min',
            page_size: PIECE,
            since_event_id: piece * PIECE,
            until_event_id: (piece + 1) * PIECE,
          });
      // Below another bound the same piece holds other events.
      if (until === bound) {
        pieces.set(piece, page.events);
        if (filtered) total = page.pagination.total_events ?? total;
        counted = true;
      }
      changed(null);
    } catch (error) {
      changed(error instanceof Error ? error : new Error(String(error)));
    } finally {
      pending.delete(piece);
    }
  };
  const placeOf = (index: number): { readonly piece: number; readonly within: number } => {
    const place = filtered ? index : newest - index - 1;
    return { piece: Math.floor(place / PIECE), within: place % PIECE };
  };
  const lookForMore = async (): Promise<void> => {
    const until = newest;
    try {
      const page = await fitting(0, until);
      const found = page.pagination.total_events ?? total;
      if (found !== total) {
        pieces.clear();
        pieces.set(0, page.events);
        total = found;
        bound = until;
        changed(null);
      }
    } catch {
      // What is shown stays as it is; the next event asks again.
    }
    growth = newest > until ? setTimeout(() => void lookForMore(), GROWTH_MS) : undefined;
  };
  if (filtered) void load(0);

  return {
    get total() {
      return total;
    },
    get counted() {
      return counted;
    },
    at(index) {
      const { piece, within } = placeOf(index);
      return pieces.get(piece)?.[within] ?? null;
    },
    find(eventId) {
      if (!filtered) return newest - eventId;
      for (const [piece, events] of pieces) {
        const within = events.findIndex((each) => each.event_id === eventId);
        if (within !== -1) return piece * PIECE + within;
      }
      return -1;
    },
    want(from, to) {
      for (let index = from; index <= Math.min(to, total - 1); index++) {
        const { piece, within } = placeOf(index);
        if (pieces.get(piece)?.[within] === undefined && !pending.has(piece)) void load(piece);
      }
    },
    grow(next) {
      if (next <= newest) return;
      newest = next;
      if (filtered) {
        growth ??= setTimeout(() => void lookForMore(), GROWTH_MS);
        return;
      }
      total = next;
      changed(null);
    },
    stop() {
      clearTimeout(growth);
    },
  };
}
