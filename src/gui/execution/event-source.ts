/**
 * Rows of a log by their place, newest first, loaded in pieces as they come into view. Without filters the place of an
 * event follows from its number (1, 2, 3 … without gaps), so a growing log only shifts places; with filters the server
 * pages, below a bound that is fixed when the filters are set.
 */
import { get } from '../core/api.ts';
import type { EventPage, LogEvent } from '../core/wire.ts';

const PIECE = 200;

export interface EventFilters {
  readonly event_type: string;
  readonly status: string;
  readonly step: string;
  readonly q: string;
}

export interface EventSource {
  readonly total: number;
  /** Null while it is on its way. */
  at(index: number): LogEvent | null;
  /** Loads what is missing between two places; `changed` is called when something came. */
  want(from: number, to: number): void;
  /** Another event was written. */
  grow(last: number): void;
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
  const bound = last;
  let newest = last;
  let total = filtered ? 0 : last;

  const load = async (piece: number): Promise<void> => {
    pending.add(piece);
    try {
      const page = await get<EventPage>(
        path,
        filtered
          ? { ...filters, order: 'desc', fields: 'min', page: piece + 1, page_size: PIECE, until_event_id: bound }
          : { fields: 'min', page_size: PIECE, since_event_id: piece * PIECE, until_event_id: (piece + 1) * PIECE },
      );
      pieces.set(piece, page.events);
      if (filtered) total = page.pagination.total_events ?? total;
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
  if (filtered) void load(0);

  return {
    get total() {
      return total;
    },
    at(index) {
      const { piece, within } = placeOf(index);
      return pieces.get(piece)?.[within] ?? null;
    },
    want(from, to) {
      for (let index = from; index <= Math.min(to, total - 1); index++) {
        const { piece, within } = placeOf(index);
        if (pieces.get(piece)?.[within] === undefined && !pending.has(piece)) void load(piece);
      }
    },
    grow(next) {
      if (filtered || next <= newest) return;
      newest = next;
      total = next;
      changed(null);
    },
  };
}
