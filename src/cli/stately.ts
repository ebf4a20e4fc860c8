/**
 * Frames of the inspection API as events of the Stately inspector protocol (`@statelyai/inspect`): one `@xstate.actor` for
 * the chart of an execution, then for each frame `@xstate.event` and `@xstate.snapshot`. Frames hold names, counters and
 * numbers of events and no values, so nothing can be shown there that the API does not show.
 */
import type { JsonMap } from '../../machines/json.ts';
import { applyPatch } from '../../machines/merge-patch.ts';
import type { ExecutionAnswer, FrameAnswer, MachineAnswer } from '../client/answers.ts';

/** Version of the package whose protocol this is. */
const PROTOCOL = '0.4.0';

interface Snapshot {
  readonly status: 'active' | 'done';
  readonly value: StateValue;
  readonly context: JsonMap;
}

type StateValue = string | { readonly [state: string]: StateValue };

interface Base {
  /** The actor it is about. */
  readonly sessionId: string;
  /** The actor at the root of its tree. */
  readonly rootId: string;
  /** Unique. */
  readonly id: string;
  /** Milliseconds since the epoch, as text. */
  readonly createdAt: string;
  readonly _version: string;
}

interface Told {
  readonly type: string;
  readonly [key: string]: string | number;
}

export type StatelyEvent =
  | (Base & {
      readonly type: '@xstate.actor';
      readonly name: string;
      readonly parentId?: string;
      /** The chart, as JSON text. */
      readonly definition: string;
      readonly snapshot: Snapshot;
    })
  | (Base & { readonly type: '@xstate.event'; readonly sourceId?: string; readonly event: Told })
  | (Base & { readonly type: '@xstate.snapshot'; readonly event: Told; readonly snapshot: Snapshot });

/** One execution on its way to the inspector; frames have to come in order, none left out. */
export class StatelyActor {
  readonly #row: ExecutionAnswer;
  readonly #chart: MachineAnswer;
  readonly #finals: ReadonlySet<string>;
  #context: JsonMap = {};

  constructor(row: ExecutionAnswer, chart: MachineAnswer) {
    this.#row = row;
    this.#chart = chart;
    this.#finals = finalsOf(chart.config);
  }

  /** To be sent first. */
  begin(): StatelyEvent {
    const { path, start_time } = this.#row;
    const parent = idIn(this.#row, 'parent_execution_id');
    const initial = this.#chart.config['initial'];
    return {
      ...{ type: '@xstate.actor', name: path, ...this.#base('actor', start_time) },
      ...(parent === null ? {} : { parentId: sessionOf(parent) }),
      definition: JSON.stringify(this.#chart.config),
      snapshot: { status: 'active', value: typeof initial === 'string' ? initial : {}, context: {} },
    };
  }

  follow(frame: FrameAnswer): readonly StatelyEvent[] {
    this.#context = applyPatch(frame.keyframe ? {} : this.#context, frame.context_patch);
    const event: Told = { type: frame.type, event_id: frame.event_id, at: frame.at };
    const value = stateValueOf(frame.states);
    const status = typeof value === 'string' && this.#finals.has(value) ? 'done' : 'active';
    return [
      { ...this.#base(`event:${frame.n}`, frame.at), type: '@xstate.event', event },
      {
        ...this.#base(`snapshot:${frame.n}`, frame.at),
        ...{ type: '@xstate.snapshot', event, snapshot: { status, value, context: this.#context } },
      },
    ];
  }

  #base(what: string, at: string): Base {
    const sessionId = sessionOf(this.#row.execution_id);
    const root = idIn(this.#row, 'root_execution_id');
    return {
      ...{ sessionId, rootId: root === null ? sessionId : sessionOf(root), id: `${sessionId}:${what}` },
      ...{ createdAt: String(Date.parse(at)), _version: PROTOCOL },
    };
  }
}

function sessionOf(executionId: number): string {
  return `execution:${executionId}`;
}

/** `['execution.running.working']` is `{running: 'working'}`. */
function stateValueOf(states: readonly string[]): StateValue {
  const [leaf = ''] = states;
  const [innermost = '', ...around] = leaf.split('.').slice(1).reverse();
  return around.reduce<StateValue>((inner, name) => ({ [name]: inner }), innermost);
}

function finalsOf(config: JsonMap): ReadonlySet<string> {
  const states = Object.entries((config['states'] ?? {}) as JsonMap);
  return new Set(states.flatMap(([name, state]) => ((state as JsonMap | null)?.['type'] === 'final' ? [name] : [])));
}

function idIn(row: ExecutionAnswer, key: string): number | null {
  const value = row[key];
  return typeof value === 'number' ? value : null;
}
