/**
 * A chart as plain data: its states and transitions in document order. Everything that shows a chart (drawing, layout,
 * documents, what could happen next) reads this and nothing of XState, so all of them show the same chart.
 */
import type { AnyMachineSnapshot, AnyStateMachine, StateNode, StateValue } from 'xstate';
import { known } from './known.ts';

export interface OutlineState {
  /** Path with the chart's name in front: `execution.running.working`. */
  readonly id: string;
  readonly name: string;
  /** Id of the state around it; null for states of the first level. */
  readonly parent: string | null;
  readonly kind: 'atomic' | 'compound' | 'parallel' | 'final' | 'history';
  readonly description: string;
  readonly tags: readonly string[];
  /** Id of the state it begins in; null without states inside. */
  readonly initial: string | null;
  /** Names of the actions on the way in and out. */
  readonly entry: readonly string[];
  readonly exit: readonly string[];
}

export interface OutlineTransition {
  /** Unique within the chart: `<from>:<event>#<index>`. */
  readonly id: string;
  readonly from: string;
  /** Null: the state stays, only the actions run. */
  readonly to: string | null;
  readonly event: string;
  /** Null: always taken when it is reached. */
  readonly guard: string | null;
  readonly actions: readonly string[];
  readonly description: string | null;
}

export interface Outline {
  readonly name: string;
  readonly description: string;
  /** Id of the first state. */
  readonly initial: string;
  readonly states: readonly OutlineState[];
  /** By state, then event, in the order in which they are tried. */
  readonly transitions: readonly OutlineTransition[];
}

/** An event that could happen next, with the guards in the order in which they are asked. */
export interface NextEvent {
  readonly type: string;
  readonly guards: readonly string[];
}

const outlines = new WeakMap<AnyStateMachine, Outline>();

/** Made once per chart. */
export function outlineOf(machine: AnyStateMachine): Outline {
  let outline = outlines.get(machine);
  if (outline === undefined) {
    outline = readOutline(machine);
    outlines.set(machine, outline);
  }
  return outline;
}

/** Ids of the innermost states a snapshot is in. */
export function activeStates(machine: AnyStateMachine, value: StateValue): readonly string[] {
  return leavesOf(machine.id, value);
}

/** What the states of a snapshot listen to, inner states first; empty once the chart has ended. */
export function nextEvents(
  machine: AnyStateMachine,
  snapshot: Pick<AnyMachineSnapshot, 'value' | 'status'>,
): NextEvent[] {
  if (snapshot.status !== 'active') return [];
  const { states, transitions } = outlineOf(machine);
  const parents = new Map(states.map((state) => [state.id, state.parent]));
  const guards = new Map<string, string[]>();
  for (const leaf of activeStates(machine, snapshot.value)) {
    for (let id: string | null = leaf; id !== null; id = parents.get(id) ?? null) {
      for (const each of transitions) {
        if (each.from !== id) continue;
        const known = guards.get(each.event) ?? [];
        guards.set(each.event, known);
        if (each.guard !== null && !known.includes(each.guard)) known.push(each.guard);
      }
    }
  }
  return [...guards].map(([type, names]) => ({ type, guards: names }));
}

function leavesOf(prefix: string, value: StateValue): readonly string[] {
  if (typeof value === 'string') return [`${prefix}.${value}`];
  const inside = Object.entries(value);
  // A state of a parallel one that has no states of its own.
  if (inside.length === 0) return [prefix];
  return inside.flatMap(([key, inner]) => leavesOf(`${prefix}.${key}`, known(inner)));
}

function readOutline(machine: AnyStateMachine): Outline {
  const states: OutlineState[] = [];
  const transitions: OutlineTransition[] = [];
  const visit = (node: Node, parent: string | null): void => {
    const id = idOf(node);
    states.push({
      id,
      name: node.key,
      parent,
      kind: node.type,
      description: node.description ?? '',
      tags: [...node.tags],
      initial: firstOf(node),
      entry: namesOf(node.entry),
      exit: namesOf(node.exit),
    });
    for (const [event, candidates] of node.transitions) {
      candidates.forEach((each, index) => {
        const [target] = each.target ?? [];
        transitions.push({
          id: `${id}:${event}#${index}`,
          from: id,
          to: target === undefined ? null : idOf(target),
          event,
          guard: each.guard === undefined ? null : nameOf(each.guard),
          actions: namesOf(each.actions),
          description: each.description ?? null,
        });
      });
    }
    for (const child of childrenOf(node)) visit(child, id);
  };
  for (const child of childrenOf(machine.root)) visit(child, null);
  return {
    name: machine.id,
    description: machine.root.description ?? '',
    initial: firstOf(machine.root) ?? machine.id,
    states,
    transitions,
  };
}

type Node = StateNode;

function childrenOf(node: Node): readonly Node[] {
  return Object.values(node.states).sort((a, b) => a.order - b.order);
}

/** A state with an id of its own is still named by its place, so that names and values agree. */
function idOf(node: Node): string {
  return [node.machine.id, ...node.path].join('.');
}

function firstOf(node: Node): string | null {
  const target = node.initial?.target?.[0];
  return target === undefined ? null : idOf(target);
}

function namesOf(actions: readonly unknown[]): readonly string[] {
  return actions.map(nameOf);
}

/** Charts name their guards and actions; an inline function has no name and is told as what it is. */
function nameOf(named: unknown): string {
  if (typeof named === 'string') return named;
  if (typeof named === 'object' && named !== null && 'type' in named) return String(named.type);
  return '(inline)';
}
