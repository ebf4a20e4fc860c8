/**
 * What an execution did with the steps and arcs of its playbook, read from its log in the order of the fold. That a step
 * was entered is an event; by which arc is not: it is the arc from the step that ended in the same turn. Where a second
 * branch reaches a join that waits already, the log says nothing, and the arc counts as taken when the step that ended
 * took no other one.
 */
import type { LogEvent } from '../events.ts';
import { isMap } from '../json.ts';
import type { StepEdge, StepGraph, StepStatus } from '../playbook/step-graph.ts';
import type { Run } from './run.ts';

export interface StepState {
  readonly status: StepStatus;
  readonly activations: number;
  /** Of the present or last activation of a loop; null for other steps. */
  readonly iterations: { readonly total: number; readonly done: number; readonly failed: number } | null;
  /** ISO instants of the present or last activation. */
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  readonly error: string | null;
}

interface Seen {
  startedAt: string | null;
  endedAt: string | null;
  error: string | null;
  iterations: { total: number; done: number; failed: number } | null;
}

export class Overlay {
  readonly #arcs: ReadonlyMap<string, readonly StepEdge[]>;
  readonly #names: ReadonlySet<string>;
  readonly #steps = new Map<string, Seen>();
  readonly #taken = new Map<string, number>();
  /** Steps that ended in the turn under way, in order, and whether they succeeded. */
  #ended = new Map<string, boolean>();
  /** Arcs already counted for this turn, by step. */
  #left = new Map<string, Set<string>>();
  #waiting: readonly string[] = [];
  #settled: Run['settled'] = null;

  constructor(graph: StepGraph) {
    const arcs = new Map<string, StepEdge[]>();
    for (const edge of graph.edges) arcs.set(edge.from, [...(arcs.get(edge.from) ?? []), edge]);
    this.#arcs = arcs;
    this.#names = new Set(graph.nodes.flatMap(({ id, line }) => (line === null ? [] : [id])));
  }

  /** Takes an event that was just folded into `run`. */
  see(event: LogEvent, run: Run): void {
    if (event.eventId === event.causeId) this.#closeTurn();
    this.#seeSteps(event, run);
    if (this.#ended.size > 0) this.#waiting = [...run.joins];
  }

  /** How often the arc was taken, by edge id. */
  taken(): ReadonlyMap<string, number> {
    this.#closeTurn();
    return this.#taken;
  }

  stepState(name: string, run: Run, isEnded: boolean): StepState {
    const step = run.steps[name];
    const seen = this.#steps.get(name);
    const loop = step?.loop ?? null;
    return {
      status: statusOf(name, run, isEnded),
      activations: step?.activation ?? 0,
      iterations:
        loop === null
          ? (seen?.iterations ?? null)
          : { total: Math.max(loop.total, loop.next), done: loop.succeeded + loop.failed, failed: loop.failed },
      startedAt: seen?.startedAt ?? null,
      endedAt: seen?.endedAt ?? null,
      error: seen?.error ?? null,
    };
  }

  #seeSteps(event: LogEvent, run: Run): void {
    const { nodeName: name, at } = event;
    switch (event.type) {
      case 'step.enter': {
        const total = event.context['iterations_expected'];
        const iterations = typeof total === 'number' ? { total, done: 0, failed: 0 } : null;
        this.#steps.set(name, { startedAt: at, endedAt: null, error: null, iterations });
        this.#enter(name);
        return;
      }
      case 'step.skipped':
        this.#seen(name).endedAt = at;
        if (event.context['reason'] !== 'admission') return;
        this.#enter(name);
        this.#end(name, true);
        return;
      case 'loop.done': {
        const seen = this.#seen(name);
        const stats = event.context['stats'];
        if (isMap(stats)) {
          const [success, failed] = [numberOf(stats['success']), numberOf(stats['failed'])];
          seen.iterations = { total: numberOf(stats['total']), done: success + failed, failed };
        }
        seen.endedAt = at;
        seen.error = event.error;
        this.#end(name, event.status !== 'failed');
        return;
      }
      case 'ctx.updated': {
        const failed = event.meta['failed'];
        if (isMap(failed)) {
          this.#seen(name).error = typeof failed['message'] === 'string' ? failed['message'] : null;
          this.#end(name, false);
        }
        const arrived = event.meta['arrived'];
        if (isMap(arrived))
          for (const [join, arrival] of Object.entries(arrived)) {
            if (isMap(arrival)) this.#take(String(arrival['from']), join);
          }
        return;
      }
      case 'call.error':
        if (!event.stale && run.open[event.commandId ?? 0] !== undefined) this.#seen(name).error = event.error;
        break;
    }
    const { settled } = run;
    if (settled === null || settled === this.#settled) return;
    this.#settled = settled;
    const step = run.steps[settled.step];
    if (!settled.current || step === undefined || step.loop !== null) return;
    const seen = this.#seen(settled.step);
    seen.endedAt = at;
    seen.error = settled.ok ? null : (seen.error ?? event.error);
    this.#end(settled.step, settled.ok);
  }

  /** In one turn a step may end more than once: when it is denied again and again. */
  #end(name: string, isOk: boolean): void {
    this.#ended.delete(name);
    this.#ended.set(name, isOk);
    this.#left.delete(name);
  }

  #seen(name: string): Seen {
    const seen = this.#steps.get(name) ?? { startedAt: null, endedAt: null, error: null, iterations: null };
    this.#steps.set(name, seen);
    return seen;
  }

  /** The step that ended last in this turn and has an arc to it led here. */
  #enter(name: string): void {
    for (const from of [...this.#ended.keys()].reverse()) if (this.#take(from, name)) return;
  }

  #take(from: string, to: string): boolean {
    const edge = this.#arcs.get(from)?.find((arc) => arc.to === to && arc.when !== false);
    if (edge === undefined) return false;
    const left = this.#left.get(from) ?? new Set<string>();
    this.#left.set(from, left);
    this.#taken.set(edge.id, (this.#taken.get(edge.id) ?? 0) + 1);
    left.add(to);
    return true;
  }

  /** Arcs into joins that wait already, and out of the playbook, leave no row: what is left over was taken. */
  #closeTurn(): void {
    for (const [from, isOk] of this.#ended) {
      const arcs = this.#arcs.get(from) ?? [];
      const left = this.#left.get(from)?.size ?? 0;
      for (const arc of isOk ? arcs : []) {
        const isSilent = this.#waiting.includes(arc.to) || !this.#names.has(arc.to);
        if (!isSilent || this.#left.get(from)?.has(arc.to)) continue;
        const isCertain = arc.when === null || arc.when === true;
        if (arc.mode === 'exclusive' ? left === 0 : isCertain) this.#take(from, arc.to);
        if (arc.mode === 'exclusive') break;
      }
    }
    this.#ended = new Map();
    this.#left = new Map();
    this.#waiting = [];
  }
}

function statusOf(name: string, run: Run, isEnded: boolean): StepStatus {
  const step = run.steps[name];
  if (step?.status === 'open') return isEnded ? 'cancelled' : 'running';
  if (run.joins.includes(name)) return 'waiting';
  return step?.status ?? 'pending';
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}
