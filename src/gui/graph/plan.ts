/**
 * The step graph of a playbook from its parsed document, for servers that do not draw it themselves, and the states of
 * its steps folded from events. Only source.ts calls this; pages see the same object wherever it came from.
 */
import type { GraphEdge, GraphNode, Json, JsonMap, LogEvent, StepGraph, StepState } from '../core/wire.ts';

export function planOf(path: string, version: number | null, payload: JsonMap): StepGraph {
  const steps = listOf(payload['workflow']).filter(isMap);
  const names = new Set(steps.map(nameOf));
  const nodes = steps.map(
    (step): GraphNode => ({
      id: nameOf(step),
      step: nameOf(step),
      kinds: kindsOf(step['tool']),
      loop: isMap(step['loop']) ? step['loop'] : null,
      line: null,
      state: null,
    }),
  );
  const edges = steps.flatMap((step) => edgesOf(step).filter((edge) => names.has(edge.to)));
  return { path, version, entry: nodes.find((node) => node.id === 'start')?.id ?? nodes[0]?.id ?? null, nodes, edges };
}

/** Lays the states of one run over the plan. */
export function withStates(plan: StepGraph, events: readonly LogEvent[]): StepGraph {
  const story = foldSteps(events);
  return {
    ...plan,
    nodes: plan.nodes.map((node) => ({ ...node, state: story.steps.get(node.step) ?? null })),
    edges: plan.edges.map((edge) => ({ ...edge, taken: story.taken.get(`${edge.from}\n${edge.to}`) ?? 0 })),
  };
}

interface Folding {
  status: string;
  activations: number;
  total: number | null;
  done: number;
  failed: number;
  loops: boolean;
  startedAt: string | null;
  endedAt: string | null;
  error: string | null;
}

interface Story {
  readonly steps: ReadonlyMap<string, StepState>;
  readonly taken: ReadonlyMap<string, number>;
}

/** Events oldest first. */
export function foldSteps(events: readonly LogEvent[]): Story {
  const steps = new Map<string, Folding>();
  const taken = new Map<string, number>();
  const stepOfEvent = new Map<number, string>();
  const take = (from: string | undefined, to: string): void => {
    if (from === undefined) return;
    taken.set(`${from}\n${to}`, (taken.get(`${from}\n${to}`) ?? 0) + 1);
  };
  const stepAt = (name: string): Folding => {
    const found = steps.get(name) ?? {
      status: 'pending',
      activations: 0,
      total: null,
      done: 0,
      failed: 0,
      loops: false,
      startedAt: null,
      endedAt: null,
      error: null,
    };
    steps.set(name, found);
    return found;
  };

  for (const event of events) {
    const name = event.node_name;
    stepOfEvent.set(event.event_id, name);
    switch (event.event_type) {
      case 'step.enter': {
        const step = stepAt(name);
        step.status = 'running';
        step.activations += 1;
        step.startedAt ??= event.created_at;
        step.endedAt = null;
        step.error = null;
        step.loops = event.node_type === 'loop';
        step.done = 0;
        step.failed = 0;
        const cause = event.parent_event_id === null ? undefined : stepOfEvent.get(event.parent_event_id);
        if (event.parent_event_id !== 1) take(cause, name);
        break;
      }
      case 'step.skipped':
        stepAt(name).status = 'skipped';
        break;
      case 'command.completed':
        if (event.status === 'completed') stepAt(name).done += 1;
        break;
      case 'command.failed':
        stepAt(name).failed += 1;
        break;
      case 'call.error':
        stepAt(name).error = event.error;
        break;
      case 'loop.done': {
        const step = stepAt(name);
        step.loops = true;
        const stats = mapAt(event.context ?? {}, 'stats');
        step.total = typeof stats['total'] === 'number' ? stats['total'] : step.done + step.failed;
        break;
      }
      case 'step.exit': {
        const step = stepAt(name);
        step.status = event.status;
        step.endedAt = event.created_at;
        if (event.status !== 'failed') step.error = null;
        break;
      }
      case 'ctx.updated': {
        // A join that is still waiting: the arc was taken although the step has not begun.
        const arrived = mapAt(event.meta ?? {}, 'arrived');
        for (const target of Object.keys(arrived)) take(name, target);
        break;
      }
      case 'execution.cancelled':
      case 'playbook.failed':
        for (const step of steps.values()) {
          if (step.status !== 'running') continue;
          step.status = 'cancelled';
          step.endedAt = event.created_at;
        }
        break;
      default:
    }
  }
  return { steps: new Map([...steps].map(([name, step]) => [name, stateOf(step)])), taken };
}

function stateOf(step: Folding): StepState {
  const ended =
    step.endedAt === null || step.startedAt === null ? null : Date.parse(step.endedAt) - Date.parse(step.startedAt);
  return {
    status: step.status,
    activations: step.activations,
    iterations: step.loops ? { total: step.total, done: step.done, failed: step.failed } : null,
    started_at: step.startedAt,
    ended_at: step.endedAt,
    duration_ms: ended,
    error: step.error,
  };
}

function edgesOf(step: JsonMap): GraphEdge[] {
  const next = step['next'];
  const from = nameOf(step);
  const mode = isMap(next) && isMap(next['spec']) && next['spec']['mode'] === 'inclusive' ? 'inclusive' : 'exclusive';
  const arcs = isMap(next)
    ? listOf(next['arcs'] ?? (next['step'] === undefined ? [] : [next]))
    : typeof next === 'string'
      ? [next]
      : listOf(next);
  return arcs.flatMap((arc, index): GraphEdge[] => {
    const to = typeof arc === 'string' ? arc : isMap(arc) && typeof arc['step'] === 'string' ? arc['step'] : null;
    if (to === null) return [];
    const when = isMap(arc) && arc['when'] !== undefined ? String(arc['when']) : null;
    return [{ id: `${from}>${to}#${index}`, from, to, when, mode, back: false, taken: null }];
  });
}

function kindsOf(tool: Json | undefined): readonly string[] {
  const tasks = Array.isArray(tool) ? tool : [tool];
  const kinds = tasks.flatMap((task: Json | undefined) => {
    if (!isMap(task)) return [];
    if (typeof task['kind'] === 'string') return [task['kind']];
    return Object.values(task).flatMap((inner) =>
      isMap(inner) && typeof inner['kind'] === 'string' ? [inner['kind']] : [],
    );
  });
  return [...new Set(kinds)];
}

function nameOf(step: JsonMap): string {
  return typeof step['step'] === 'string' ? step['step'] : '';
}

function mapAt(of: JsonMap, key: string): JsonMap {
  const value = of[key];
  return isMap(value) ? value : {};
}

function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

function isMap(value: Json | undefined): value is JsonMap {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
