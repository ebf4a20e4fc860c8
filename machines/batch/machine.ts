/**
 * The batch chart: how far the handling of an accepted batch is (api 4.3). Readers see it move forward only; the one way
 * back is the repeat of a request whose batch had failed. What no state has a handler for changes nothing.
 */
import { setup } from 'xstate';
import { fold } from '../turn.ts';

export const BATCH_MACHINE_VERSION = 1;

export type BatchState = 'accepted' | 'processing' | 'completed' | 'failed';
export type BatchEventType = 'batch.accepted' | 'batch.processing' | 'batch.completed' | 'batch.failed';

export const batchMachine = setup({
  // The types of XState's setup are given by example; the object is never read.
  types: { events: {} as { readonly type: BatchEventType } },
}).createMachine({
  id: 'batch',
  description: 'One accepted batch of events, from its marker in the log to the last of its turns.',
  initial: 'accepted',
  states: {
    accepted: {
      description: 'Events, marker and job are committed; no processor has begun.',
      tags: ['open'],
      on: { 'batch.processing': 'processing' },
    },
    processing: {
      description: 'A processor lets the events take their turns. A redelivered job begins anew; turns are taken once.',
      tags: ['open'],
      on: { 'batch.processing': 'processing', 'batch.completed': 'completed', 'batch.failed': 'failed' },
    },
    completed: { description: 'Every event has been handled.', tags: ['ended'] },
    failed: {
      description: 'Gave up, with a code. The events stay in the log and are handled by the next turn.',
      tags: ['ended'],
      on: { 'batch.accepted': 'accepted' },
    },
  },
});

/** The state after the event; null when the batch takes no notice of it. */
export function moveBatch(state: BatchState, type: BatchEventType): BatchState | null {
  const before = batchMachine.resolveState({ value: state, context: {} });
  if (!before.can({ type })) return null;
  // The values of a flat chart are the names of its states.
  return fold(batchMachine, before, { type }).snapshot.value as BatchState;
}
