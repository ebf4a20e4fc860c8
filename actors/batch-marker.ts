/** The rows a batch leaves in the log beside its events: `batch.accepted`, `.processing`, `.completed` and `.failed`. */
import type { BatchEventType } from '../machines/batch/machine.ts';
import type { EventDraft, EventStatus } from '../machines/events.ts';
import type { JsonMap } from '../machines/json.ts';
import type { BatchRow, BatchState } from './ports.ts';

const STATUS: Readonly<Record<BatchState, EventStatus>> = {
  accepted: 'pending',
  processing: 'running',
  completed: 'completed',
  failed: 'failed',
};

/** The event status that stands for a state of a batch. */
export function statusOfBatch(state: BatchState): EventStatus {
  return STATUS[state];
}

export function batchMarker(
  type: BatchEventType,
  batch: Pick<
    BatchRow,
    'requestId' | 'eventIds' | 'eventCount' | 'commandsGenerated' | 'idempotencyKey' | 'workerId' | 'state'
  >,
  more: JsonMap = {},
  error: string | null = null,
): EventDraft {
  const requestId = String(batch.requestId);
  const status = statusOfBatch(batch.state);
  return {
    type,
    status,
    nodeName: 'events.batch',
    nodeType: 'batch',
    workerId: batch.workerId,
    error,
    context: { request_id: requestId },
    result: {
      status,
      context: {
        request_id: requestId,
        event_ids: batch.eventIds,
        event_count: batch.eventCount,
        commands_generated: batch.commandsGenerated,
        ...more,
      },
    },
    meta: {
      batch_request_id: requestId,
      idempotency_key: batch.idempotencyKey,
      event_count: batch.eventCount,
      worker_id: batch.workerId,
    },
  };
}
