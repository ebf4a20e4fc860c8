/**
 * What a run looks like to someone who watches it: a fold of the event log into one line per step. Pure; the drawing is
 * in live-view.ts. Unknown event types change nothing, as readers of the log must tolerate them.
 */

/** The parts of a wire event (api 3.1) that the picture needs. */
export interface SeenEvent {
  readonly event_id: number;
  readonly event_type: string;
  readonly node_id: string;
  readonly node_name: string;
  readonly node_type: string | null;
  readonly status: string;
  readonly created_at: string;
  readonly duration: number | null;
  readonly error: string | null;
  readonly context: Readonly<Record<string, unknown>> | null;
  readonly meta: Readonly<Record<string, unknown>> | null;
}

export type StepState = 'waiting' | 'running' | 'done' | 'failed' | 'skipped' | 'stopped';

export interface StepProgress {
  readonly name: string;
  readonly kind: string;
  readonly state: StepState;
  /** How often it has been entered. */
  readonly activations: number;
  readonly loop: LoopProgress | null;
  /** Milliseconds from entering to leaving, null while it runs. */
  readonly durationMs: number | null;
  readonly enteredAt: number | null;
  readonly error: string | null;
}

export interface LoopProgress {
  /** Null for a cursor loop: it ends when there is no more. */
  readonly expected: number | null;
  readonly done: number;
  readonly failed: number;
  readonly open: number;
}

export interface RunProgress {
  readonly steps: readonly StepProgress[];
  readonly lastEventId: number;
  /** Null while it runs. */
  readonly ended: 'completed' | 'failed' | 'cancelled' | null;
  readonly startedAt: number | null;
}

/** Before the first event: the steps of the document, in its order. */
export function notStarted(steps: readonly { readonly name: string; readonly kind: string }[]): RunProgress {
  return { steps: steps.map(fresh), lastEventId: 0, ended: null, startedAt: null };
}

export function progressAfter(before: RunProgress, event: SeenEvent): RunProgress {
  const run: RunProgress = {
    ...before,
    lastEventId: Math.max(before.lastEventId, event.event_id),
    startedAt: before.startedAt ?? Date.parse(event.created_at),
  };
  if (event.meta?.['stale'] === true || event.meta?.['late'] === true) return run;
  switch (event.event_type) {
    case 'playbook.completed':
      return { ...run, ended: 'completed' };
    case 'playbook.failed':
      return stopOpenSteps({ ...run, ended: 'failed' });
    case 'execution.cancelled':
      return stopOpenSteps({ ...run, ended: 'cancelled' });
    default:
      return { ...run, steps: stepsAfter(run.steps, event) };
  }
}

function stepsAfter(steps: readonly StepProgress[], event: SeenEvent): readonly StepProgress[] {
  if (!CHANGES.has(event.event_type)) return steps;
  const known = steps.some((step) => step.name === event.node_name);
  const all = known ? steps : [...steps, fresh({ name: event.node_name, kind: event.node_type ?? '' })];
  return all.map((step) => (step.name === event.node_name ? stepAfter(step, event) : step));
}

const CHANGES = new Set([
  'step.enter',
  'step.skipped',
  'step.exit',
  'command.issued',
  'call.done',
  'call.error',
  'loop.done',
]);

function stepAfter(step: StepProgress, event: SeenEvent): StepProgress {
  const at = Date.parse(event.created_at);
  const ofIteration = typeof event.meta?.['iteration_index'] === 'number';
  switch (event.event_type) {
    case 'step.enter':
      return entered(step, event, at);
    case 'step.skipped':
      return step.activations > 0 ? step : { ...step, state: 'skipped' };
    case 'command.issued':
      return step.loop === null ? step : { ...step, loop: { ...step.loop, open: step.loop.open + 1 } };
    case 'call.done':
      return step.loop === null || !ofIteration ? step : { ...step, loop: settled(step.loop, 'done') };
    case 'call.error':
      if (step.loop === null || !ofIteration) return { ...step, error: event.error };
      return { ...step, error: event.error, loop: settled(step.loop, 'failed') };
    case 'step.exit':
    case 'loop.done':
      return {
        ...step,
        state: event.status === 'failed' ? 'failed' : 'done',
        durationMs: step.enteredAt === null ? event.duration : at - step.enteredAt,
      };
    default:
      return step;
  }
}

function entered(step: StepProgress, event: SeenEvent, at: number): StepProgress {
  const expected = event.context?.['iterations_expected'];
  const looping = expected !== undefined || event.context?.['iterator'] !== undefined;
  return {
    ...step,
    state: 'running',
    activations: step.activations + 1,
    loop: looping ? { expected: typeof expected === 'number' ? expected : null, done: 0, failed: 0, open: 0 } : null,
    durationMs: null,
    enteredAt: at,
    error: null,
  };
}

function settled(loop: LoopProgress, as: 'done' | 'failed'): LoopProgress {
  return { ...loop, [as]: loop[as] + 1, open: Math.max(0, loop.open - 1) };
}

function stopOpenSteps(run: RunProgress): RunProgress {
  return { ...run, steps: run.steps.map((step) => (step.state === 'running' ? { ...step, state: 'stopped' } : step)) };
}

function fresh(step: { readonly name: string; readonly kind: string }): StepProgress {
  return {
    name: step.name,
    kind: step.kind,
    state: 'waiting',
    activations: 0,
    loop: null,
    durationMs: null,
    enteredAt: null,
    error: null,
  };
}
