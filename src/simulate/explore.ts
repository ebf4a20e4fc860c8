/**
 * Every way through a playbook, within bounds: each command ends well or not, each guard that data would decide is once
 * true and once false, each loop has items or none. A path is replayed from the start with a list of answers; the next
 * path changes the last answer that can be changed. The routing on the way is the engine's own (skeleton.ts).
 */
import type { LogEvent } from '../../machines/events.ts';
import type { ArcPlan, Plan } from '../../machines/execution/plan.ts';
import { compilePlan } from '../../machines/execution/plan.ts';
import type { EngineLimits } from '../../machines/execution/stage.ts';
import {
  completeDraft,
  type ExecutionState,
  newExecution,
  runOf,
  takeTurn,
} from '../../machines/execution/take-turn.ts';
import type { Playbook } from '../../machines/playbook/document.ts';
import type { Condition } from '../../machines/playbook/template/compiled.ts';
import type { Scope } from '../../machines/playbook/template/facade.ts';
import { verdictOn } from './known-scope.ts';
import { reachabilityOf } from './reachability.ts';
import { type Oracle, skeletonOf } from './skeleton.ts';

export interface Finding {
  readonly code:
    | 'step_never_runs'
    | 'guard_never_true'
    | 'guard_never_asked'
    | 'join_never_meets'
    | 'loop_without_exit';
  readonly step: string;
  readonly line: number;
  readonly message: string;
}

export interface Exploration {
  readonly findings: readonly Finding[];
  readonly paths: number;
  /** False: there are more paths than were looked at, and only what no path could change is reported. */
  readonly complete: boolean;
  /** Paths that were left because a step came too often. */
  readonly cut: number;
  readonly ends: { readonly completed: number; readonly failed: number };
  /** Different ways, as steps in the order in which they were entered; `!` marks a failure. */
  readonly routes: readonly { readonly steps: readonly string[]; readonly end: PathEnd }[];
}

export interface ExploreBounds {
  readonly pathsMax: number;
  /** Activations of one step on a path. */
  readonly activationsMax: number;
}

type PathEnd = 'completed' | 'failed' | 'cut';

const ROUTES_MAX = 1_000;
const AT = '2026-01-01T00:00:00.000Z';
const EVENTS_MAX = 5_000;

export function explore(playbook: Playbook, limits: EngineLimits, bounds: ExploreBounds): Exploration {
  const answers = new Answers();
  const walk = new Walk(playbook, limits, answers, bounds);
  const routes = new Map<string, Exploration['routes'][number]>();
  const count = { completed: 0, failed: 0, cut: 0 };
  let paths = 0;
  let isComplete = false;
  while (paths < bounds.pathsMax && !isComplete) {
    const path = walk.run();
    paths += 1;
    count[path.end] += 1;
    const key = `${path.steps.join('>')}:${path.end}`;
    if (routes.size < ROUTES_MAX && !routes.has(key)) routes.set(key, path);
    isComplete = !answers.next();
  }
  const findings = [...lasting(playbook, limits), ...(isComplete ? walk.findings() : [])];
  return {
    findings: findings.sort((a, b) => a.line - b.line || a.code.localeCompare(b.code)),
    paths,
    complete: isComplete,
    cut: count.cut,
    ends: { completed: count.completed, failed: count.failed },
    routes: [...routes.values()],
  };
}

/** What holds on every path there could be. */
function lasting(playbook: Playbook, limits: EngineLimits): readonly Finding[] {
  const { steps, neverTrue, neverAsked } = reachabilityOf(compilePlan(playbook), limits);
  const lines = new Map(playbook.steps.map(({ name, line }) => [name, line]));
  const lineOf = (step: string): number => lines.get(step) ?? 1;
  return [
    ...playbook.steps
      .filter(({ name }) => !steps.has(name))
      .map(({ name, line }) => finding('step_never_runs', name, line, 'no way that can be taken leads here')),
    ...neverTrue.map(({ step, arc }) =>
      finding(
        'guard_never_true',
        step,
        lineOf(step),
        `the arc to '${arc.arc.to}' is never taken: ${arc.source} is false whenever it is asked`,
      ),
    ),
    ...neverAsked.map(({ step, arc }) =>
      finding(
        'guard_never_asked',
        step,
        lineOf(step),
        `the arc to '${arc.arc.to}' is never looked at: one before it is always taken`,
      ),
    ),
  ];
}

function finding(code: Finding['code'], step: string, line: number, message: string): Finding {
  return { code, step, line, message };
}

/** The answers of a path: given ones first, then always the first; the next path changes the last that can be. */
class Answers {
  #given: number[] = [];
  #sizes: number[] = [];
  #place = 0;

  begin(): void {
    this.#place = 0;
    this.#sizes.length = 0;
  }

  /** One of `size` answers, as a number from 0. */
  choose(size: number): number {
    const answer = this.#given[this.#place] ?? 0;
    this.#given[this.#place] = answer;
    this.#sizes.push(size);
    this.#place += 1;
    return answer;
  }

  next(): boolean {
    this.#given.length = this.#place;
    for (let last = this.#given.length - 1; last >= 0; last -= 1) {
      const answer = (this.#given[last] ?? 0) + 1;
      if (answer < (this.#sizes[last] ?? 0)) {
        this.#given[last] = answer;
        this.#given.length = last + 1;
        return true;
      }
    }
    return false;
  }
}

interface OpenCommand {
  readonly commandId: number;
  readonly event: LogEvent;
  readonly step: string;
  readonly toolKind: string;
}

class Walk implements Oracle {
  readonly #playbook: Playbook;
  readonly #plan: Plan;
  readonly #limits: EngineLimits;
  readonly #answers: Answers;
  readonly #activationsMax: number;
  /** Joins at which two branches have met on some path. */
  readonly #met = new Set<string>();
  readonly #joined = new Set<string>();
  /** Steps that some path has left behind to end, and steps on paths that were cut. */
  readonly #survived = new Set<string>();
  readonly #circled = new Set<string>();
  /** Of the turn under way: one truth for the same question. */
  #truths = new Map<string, boolean>();
  #arrived = new Map<string, Set<string>>();

  constructor(playbook: Playbook, limits: EngineLimits, answers: Answers, bounds: ExploreBounds) {
    this.#playbook = playbook;
    this.#limits = limits;
    this.#answers = answers;
    // Compiling looks at loops, so the oracle must be able to speak by now.
    this.#plan = skeletonOf(playbook, this);
    this.#activationsMax = bounds.activationsMax;
  }

  takes(step: string, arc: ArcPlan, scope: Scope): boolean {
    const taken = arc.arc.when === null || arc.arc.when === true || (arc.when !== null && this.#truth(arc.when, scope));
    if (taken) {
      const from = this.#arrived.get(arc.arc.to) ?? new Set();
      this.#arrived.set(arc.arc.to, from.add(step));
    }
    return taken;
  }

  admits(_step: string, rule: Condition, scope: Scope): boolean {
    return this.#truth(rule, scope);
  }

  items(): number {
    return this.#answers.choose(2) === 0 ? 1 : 0;
  }

  run(): Exploration['routes'][number] {
    this.#answers.begin();
    this.#arrived = new Map();
    const path = new Path(this.#plan, this.#limits, this.#activationsMax, (entered) => this.#enter(entered));
    const failed = new Set<number>();
    path.start();
    for (let command = path.take(); command !== null; command = path.take()) {
      this.#truths = new Map();
      const ok = this.#answers.choose(2) === 0;
      if (!ok) failed.add(path.entered.lastIndexOf(command.step));
      path.settle(command, ok);
    }
    const { end, entered } = path;
    // A failure is no way out of a loop.
    const seen = end === 'cut' ? this.#circled : end === 'completed' ? this.#survived : null;
    for (const step of entered) seen?.add(step);
    return { steps: entered.map((step, index) => (failed.has(index) ? `${step}!` : step)), end };
  }

  findings(): readonly Finding[] {
    const { graph } = this.#plan;
    const joins = this.#playbook.steps.filter(({ name }) => this.#joined.has(name) && !this.#met.has(name));
    const stuck = this.#playbook.steps.filter(
      ({ name }) => this.#circled.has(name) && !this.#survived.has(name) && graph.after(name).has(name),
    );
    const told = new Set<string>();
    return [
      ...joins.map(({ name, line }) => {
        const sources = [...graph.up(name)].join(', ');
        return finding('join_never_meets', name, line, `never do two of its branches (${sources}) arrive in one round`);
      }),
      ...stuck.flatMap(({ name, line }) => {
        if (told.has(name)) return [];
        const circle = stuck.filter((other) => graph.after(name).has(other.name) && graph.after(other.name).has(name));
        for (const other of circle) told.add(other.name);
        const names = circle.map((other) => other.name).join(', ');
        return [
          finding('loop_without_exit', name, line, `no way leads out of the loop over ${names}, except a failure`),
        ];
      }),
    ];
  }

  #enter(step: string): void {
    const from = this.#arrived.get(step);
    if (this.#plan.graph.up(step).size > 1) this.#joined.add(step);
    if (from !== undefined && [...from].filter((each) => this.#plan.graph.up(step).has(each)).length > 1) {
      this.#met.add(step);
    }
    this.#arrived.delete(step);
  }

  #truth(condition: Condition, scope: Scope): boolean {
    const known = verdictOn(condition, scope, this.#limits);
    if (known !== null) return known;
    const { text, negated } = questionOf(condition.source);
    const truth = this.#truths.get(text) ?? this.#answers.choose(2) === 0;
    this.#truths.set(text, truth);
    return negated ? !truth : truth;
  }
}

/** `not x` is the same question as `x`. */
function questionOf(source: string): { readonly text: string; readonly negated: boolean } {
  const inner = /^\s*\{\{(?<inner>(?:(?!\}\}).)*)\}\}\s*$/s.exec(source)?.groups?.['inner'] ?? source;
  const text = inner.trim().replaceAll(/\s+/g, ' ');
  const operand = /^not (?<operand>[\w.]+|\([^()]*\))$/.exec(text)?.groups?.['operand'];
  return operand === undefined
    ? { text, negated: false }
    : { text: operand.replace(/^\((.*)\)$/, '$1'), negated: true };
}

/** One execution of the skeleton, without a store. */
class Path {
  readonly entered: string[] = [];
  end: PathEnd = 'cut';
  readonly #plan: Plan;
  readonly #limits: EngineLimits;
  readonly #activationsMax: number;
  readonly #onEnter: (step: string) => void;
  readonly #state: ExecutionState = newExecution();
  readonly #open: OpenCommand[] = [];
  #eventId = 0;
  #id = 1_000;
  #isCut = false;

  constructor(plan: Plan, limits: EngineLimits, activationsMax: number, onEnter: (step: string) => void) {
    this.#plan = plan;
    this.#limits = limits;
    this.#activationsMax = activationsMax;
    this.#onEnter = onEnter;
  }

  start(): void {
    const { path } = this.#plan.playbook;
    const context = { workload: {}, args: {} };
    this.#tell({ type: 'execution.started', status: 'running', nodeName: path, nodeType: 'execution', context });
  }

  /** The oldest command that is open; null when the path is over. */
  take(): OpenCommand | null {
    const { value } = this.#state.snapshot;
    if (value === 'completed' || value === 'failed') this.end = value;
    return this.end === 'cut' && !this.#isCut ? (this.#open.shift() ?? null) : null;
  }

  settle({ commandId, event, step, toolKind }: OpenCommand, ok: boolean): void {
    const error = { kind: 'unknown', code: 'EXPLORED', message: 'it failed', retryable: false };
    const base = {
      nodeName: step,
      nodeId: event.nodeId,
      nodeType: toolKind,
      commandId,
      parentEventId: event.eventId,
      attempt: 1,
      status: ok ? 'completed' : 'failed',
      meta: event.meta,
    } as const;
    const context = ok ? { data: {} } : { error };
    this.#tell({ ...base, type: ok ? 'call.done' : 'call.error', result: { status: base.status, context } });
    this.#tell({ ...base, type: ok ? 'command.completed' : 'command.failed', closes: true });
  }

  #tell(draft: Parameters<typeof completeDraft>[0]): void {
    this.#eventId += 1;
    const { decided, issued } = takeTurn(this.#state, completeDraft(draft, this.#eventId, this.#eventId, AT), {
      plan: this.#plan,
      identity: { executionId: 1, catalogId: 1, path: this.#plan.playbook.path, version: 1 },
      limits: this.#limits,
      at: AT,
      nextEventId: () => {
        this.#eventId += 1;
        return this.#eventId;
      },
      newId: () => {
        this.#id += 1;
        return this.#id;
      },
      isPending: () => true,
      attemptOf: () => 0,
      payload: () => undefined,
      store: () => null,
    });
    for (const { type, nodeName } of decided) {
      if (type !== 'step.enter') continue;
      this.entered.push(nodeName);
      this.#onEnter(nodeName);
    }
    const open = runOf(this.#state).open;
    for (const { commandId, event, step, toolKind } of issued) {
      this.#open.push({ commandId, event, step: step.step.name, toolKind });
    }
    // What a failure has closed is not open any more.
    this.#open.splice(0, this.#open.length, ...this.#open.filter((each) => open[each.commandId] !== undefined));
    const last = this.entered.at(-1);
    const activations = last === undefined ? 0 : (runOf(this.#state).steps[last]?.activation ?? 0);
    this.#isCut ||= activations > this.#activationsMax || this.#eventId > EVENTS_MAX;
  }
}
