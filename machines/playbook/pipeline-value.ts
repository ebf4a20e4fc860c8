/**
 * The value of a pipeline from the data of its tasks (language 7.8): members of successful maps are promoted, later
 * tasks win; labels win over promoted names; `data` and `results` are there whatever the tasks are called.
 */
import { isMap, type Json, type JsonMap } from '../json.ts';

export interface FinishedTask {
  readonly label: string;
  readonly ok: boolean;
  /** Null where a failed task produced none. */
  readonly data: Json;
}

/** `tasks` in the order in which they last ran, each label once. Without any the value is an empty map. */
export function pipelineValue(tasks: readonly FinishedTask[]): JsonMap {
  const value = new Map<string, Json>();
  for (const task of tasks) {
    if (!task.ok || !isMap(task.data)) continue;
    for (const [key, member] of Object.entries(task.data)) value.set(key, member);
  }
  const promoted = Object.fromEntries(value);
  for (const task of tasks) value.set(task.label, task.data);
  const last = tasks.at(-1);
  if (last !== undefined && !isMap(last.data)) {
    value.set('data', last.data);
    value.set('value', last.data);
  } else if (!value.has('data')) value.set('data', promoted);
  if (!value.has('results')) value.set('results', resultsOf(tasks));
  return Object.fromEntries(value);
}

/** Label to data: what a pipeline's value is made of, each datum once. */
export function resultsOf(tasks: readonly FinishedTask[]): JsonMap {
  return Object.fromEntries(tasks.map((task) => [task.label, task.data]));
}
