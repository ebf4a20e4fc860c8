/** What one step of a run was given and what came of it, read from its latest events and command. */
import { get, orNull } from '../core/api.ts';
import type { EventPage, Json, JsonMap, LogEvent } from '../core/wire.ts';

const LATEST = 10;
export const ITERATIONS_SHOWN = 100;
/** Among so many errors of a loop that of one iteration is looked for. */
const ERRORS_READ = 500;

export interface StepData {
  /** Its task, and what its templates could read; null before a command was issued. */
  readonly input: JsonMap | null;
  /** Undefined while there is none. */
  readonly output: Json | undefined;
}

export interface Iteration {
  readonly index: number;
  readonly eventId: number;
  readonly status: string;
  readonly durationMs: number | null;
  readonly error: string | null;
  readonly worker: string | null;
}

interface CommandBody {
  /** Not for every reader (api 2.4.3). */
  readonly context?: JsonMap;
}

export async function stepData(id: number, step: string, signal: AbortSignal): Promise<StepData> {
  const [ends, issued] = await Promise.all([
    latest(id, step, 'call.done,call.error,loop.done', signal),
    latest(id, step, 'command.issued,command.failed,call.error', signal),
  ]);
  const done = ends.find((each) => each.event_type === 'loop.done') ?? ends[0];
  return { input: await inputOf(issued, signal), output: done === undefined ? undefined : dataOf(done) };
}

/** The command behind the last error of a step, or of one iteration of its loop. */
export async function failedInput(
  id: number,
  step: string,
  iteration: number | null,
  signal: AbortSignal,
): Promise<JsonMap | null> {
  if (iteration !== null) {
    const page = await get<EventPage>(
      `/api/executions/${id}/events`,
      { event_type: 'command.failed,call.error', step, page_size: ERRORS_READ, order: 'asc' },
      signal,
    );
    return inputOf(page.events.filter((each) => each.meta?.['iteration_index'] === iteration).reverse(), signal);
  }
  const [failed, issued] = await Promise.all([
    latest(id, step, 'command.failed,call.error', signal),
    latest(id, step, 'command.issued', signal),
  ]);
  return inputOf([...failed, ...issued], signal);
}

/** Iterations of a loop that have ended, the failed ones first, then the latest. */
export async function iterationsOf(id: number, step: string, signal: AbortSignal): Promise<readonly Iteration[]> {
  const [failed, done] = await Promise.all([
    latest(id, step, 'call.error', signal, ITERATIONS_SHOWN),
    latest(id, step, 'call.done', signal, ITERATIONS_SHOWN),
  ]);
  return [...failed, ...done].flatMap((event) => {
    const index = event.meta?.['iteration_index'];
    if (typeof index !== 'number') return [];
    return [
      {
        index,
        eventId: event.event_id,
        status: event.status,
        durationMs: event.duration,
        error: event.error,
        worker: event.worker_id,
      },
    ];
  });
}

async function latest(
  id: number,
  step: string,
  event_type: string,
  signal: AbortSignal,
  page_size = LATEST,
): Promise<readonly LogEvent[]> {
  const page = await get<EventPage>(`/api/executions/${id}/events`, { event_type, step, page_size }, signal);
  return page.events;
}

/** From the command where it may be read, else what was issued: the same task with its templates unrendered. */
async function inputOf(events: readonly LogEvent[], signal: AbortSignal): Promise<JsonMap | null> {
  const commandId = events.map(commandOf).find((each) => each !== null) ?? null;
  const command = commandId === null ? null : await orNull(get<CommandBody>(`/api/commands/${commandId}`, {}, signal));
  if (command?.context !== undefined) {
    const { tool_config, render_context } = command.context;
    const { iteration, ...values } = isMap(render_context) ? render_context : {};
    // The item of a loop is what its iterations differ in.
    return { ...(iteration === undefined ? {} : { iteration }), task: tool_config ?? null, values };
  }
  const issued = events.find((each) => each.event_type === 'command.issued')?.context?.['tool_config'];
  return issued === undefined ? null : { task: issued };
}

function commandOf(event: LogEvent): number | null {
  const id = event.meta?.['command_id'];
  return typeof id === 'number' ? id : null;
}

function dataOf(event: LogEvent): Json | undefined {
  const context = event.result?.['context'];
  const data = isMap(context) ? (context['data'] ?? context) : undefined;
  return data ?? (event.error === null ? null : undefined);
}

function isMap(value: Json | undefined): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
