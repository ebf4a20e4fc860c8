/**
 * What is known of each execution, in one place: lists, pages and streams all learn into it and read from it, so a
 * status can never differ between a list and a page. The newer knowledge wins, and an ended run does not run again.
 */
import { type Signal, signal } from '@preact/signals';
import { get, post } from './api.ts';
import type { Execution, StartAnswer, StatusBody } from './wire.ts';

const known = new Map<number, Signal<Execution | null>>();

export function executionSignal(id: number): Signal<Execution | null> {
  let found = known.get(id);
  if (found === undefined) {
    found = signal(null);
    known.set(id, found);
  }
  return found;
}

export function learn(row: Execution): void {
  const held = executionSignal(row.execution_id);
  const before = held.peek();
  if (before !== null && isOlder(row, before)) return;
  const keepsResult = row.result_truncated === true && before !== null && before.status === row.status;
  held.value = keepsResult ? { ...row, result: before.result } : row;
}

export function learnStatus(body: StatusBody): void {
  const before = executionSignal(body.execution_id).peek();
  if (before === null || (before.status !== 'running' && body.status === 'running')) return;
  executionSignal(body.execution_id).value = {
    ...before,
    status: body.status,
    current_step: body.current_step,
    progress: body.progress,
    progress_detail: body.progress_detail,
    end_time: body.end_time,
    duration_seconds: body.duration_seconds,
    result: body.result,
    error: body.error,
  };
}

function isOlder(row: Execution, before: Execution): boolean {
  if (before.status !== 'running' && row.status === 'running') return true;
  return row.last_event_id < before.last_event_id;
}

export async function loadExecution(id: number, signal?: AbortSignal): Promise<Execution> {
  const row = await get<Execution>(`/api/executions/${id}`, { include_events: false }, signal);
  learn(row);
  return executionSignal(id).peek() ?? row;
}

export function start(path: string, workload: unknown, version: number | null): Promise<StartAnswer> {
  return post<StartAnswer>('/api/execute', { path, workload, ...(version === null ? {} : { version }) });
}
