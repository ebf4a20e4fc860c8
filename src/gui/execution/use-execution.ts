/**
 * One execution, kept current: loaded once, then followed by its stream, and looked up now and then where there is no
 * stream. `events` counts what is stored, so that every view of the page knows when to look again.
 */
import { type Signal, useSignal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import { executionSignal, learnStatus, loadExecution } from '../core/executions.ts';
import { type Resource, useResource } from '../core/resource.ts';
import { follow } from '../core/stream.ts';
import type { Execution, StatusBody } from '../core/wire.ts';

const POLL_MS = 2_000;

export interface FollowedExecution {
  readonly row: Execution | null;
  readonly resource: Resource<Execution>;
  readonly liveness: Signal<'connecting' | 'live' | 'polling' | 'ended'>;
  readonly events: Signal<number>;
}

export function useExecution(id: number): FollowedExecution {
  const liveness = useSignal<'connecting' | 'live' | 'polling' | 'ended'>('connecting');
  const events = useSignal(0);
  const resource = useResource(`execution ${id}`, async (signal) => {
    const row = await loadExecution(id, signal);
    events.value = Math.max(events.value, row.last_event_id);
    return row;
  });
  const row = executionSignal(id).value;
  const loaded = resource.data !== null;
  const running = row?.status === 'running';
  const wasRunning = useRef(false);

  useEffect(() => {
    if (!loaded) return;
    if (!running) {
      liveness.value = 'ended';
      // What a stream tells of an end leaves out what failed and why.
      if (wasRunning.current) resource.reload();
      wasRunning.current = false;
      return;
    }
    wasRunning.current = true;
    const stop = new AbortController();
    const poll = setInterval(() => {
      if (liveness.value === 'polling' && document.visibilityState === 'visible') resource.reload();
    }, POLL_MS);
    void follow(`/api/executions/${id}/stream?since_event_id=${events.peek()}`, {
      signal: stop.signal,
      onState: (state) => {
        liveness.value = state;
      },
      onFrame: ({ event, id: eventId, data }) => {
        if (event === 'event' && eventId !== null) events.value = Math.max(events.peek(), Number(eventId));
        // `status` and `end` carry the body of /status (api 2.3.7).
        if (event === 'status' || event === 'end') learnStatus(data as StatusBody);
      },
    });
    return () => {
      stop.abort();
      clearInterval(poll);
    };
  }, [id, loaded, running]);

  return { row, resource, liveness, events };
}
