/** A chart's config as states and arrows to draw. Arrows between the same two states are one, with a line per event. Pure. */
import type { ChartConfig, Json } from '../core/wire.ts';

export interface ChartState {
  /** With the chart's name in front, as the API names active states: `execution.running.working`. */
  readonly id: string;
  readonly name: string;
  readonly parent: string | null;
  readonly description: string;
  readonly final: boolean;
  readonly initial: boolean;
  /** Events that are handled without leaving the state. */
  readonly inner: readonly string[];
}

export interface ChartArrow {
  readonly id: string;
  readonly from: string;
  readonly to: string;
  /** `event [guard]`, one per event; the chart's own name in front of an event is left out. */
  readonly lines: readonly string[];
  readonly events: readonly string[];
}

export interface ChartModel {
  readonly name: string;
  readonly initial: string;
  readonly states: readonly ChartState[];
  readonly arrows: readonly ChartArrow[];
}

interface Transition {
  readonly from: string;
  readonly to: string | null;
  readonly event: string;
  readonly guard: string | null;
}

export function chartModel(name: string, config: ChartConfig): ChartModel {
  const states: ChartState[] = [];
  const transitions: Transition[] = [];
  const walk = (id: string, parent: string | null, node: ChartConfig): void => {
    for (const [event, wanted] of Object.entries(node.on ?? {})) {
      for (const each of Array.isArray(wanted) ? wanted : [wanted])
        transitions.push(transitionOf(id, parent, event, each, name));
    }
    for (const [child, inner] of Object.entries(node.states ?? {})) {
      const childId = `${id}.${child}`;
      states.push({
        id: childId,
        name: child,
        parent: id === name ? null : id,
        description: inner.description ?? '',
        final: inner.type === 'final',
        initial: node.initial === child || node.type === 'parallel',
        inner: [],
      });
      walk(childId, id, inner);
    }
  };
  walk(name, null, config);

  const arrows = new Map<string, { from: string; to: string; lines: string[]; events: string[] }>();
  const inner = new Map<string, Set<string>>();
  for (const { from, to, event, guard } of transitions) {
    if (to === null) {
      inner.set(from, (inner.get(from) ?? new Set()).add(event));
      continue;
    }
    const key = `${from}>${to}`;
    const arrow = arrows.get(key) ?? { from, to, lines: [], events: [] };
    const shown = event.startsWith(`${name}.`) ? event.slice(name.length + 1) : event;
    arrow.lines.push(guard === null ? shown : `${shown} [${guard}]`);
    arrow.events.push(event);
    arrows.set(key, arrow);
  }
  return {
    name,
    initial: config.initial === undefined ? '' : `${name}.${config.initial}`,
    states: states.map((state) => ({ ...state, inner: [...(inner.get(state.id) ?? [])] })),
    arrows: [...arrows].map(([id, arrow]) => ({ id, ...arrow })),
  };
}

function transitionOf(id: string, parent: string | null, event: string, wanted: Json, name: string): Transition {
  const target =
    typeof wanted === 'string'
      ? wanted
      : isMap(wanted) && typeof wanted['target'] === 'string'
        ? wanted['target']
        : null;
  const guard = isMap(wanted) ? guardOf(wanted['guard']) : null;
  return { from: id, to: target === null ? null : resolve(target, id, parent ?? name, name), event, guard };
}

function resolve(target: string, id: string, parent: string, name: string): string {
  if (target.startsWith('#')) return target.slice(1).startsWith(name) ? target.slice(1) : `${name}.${target.slice(1)}`;
  if (target.startsWith('.')) return `${id}${target}`;
  return `${parent}.${target}`;
}

function guardOf(guard: Json | undefined): string | null {
  if (typeof guard === 'string') return guard;
  return isMap(guard) && typeof guard['type'] === 'string' ? guard['type'] : null;
}

function isMap(value: Json | undefined): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The states that are entered first, outermost first. */
export function initialStates(model: ChartModel): readonly string[] {
  const active: string[] = [];
  let level = model.states.filter((state) => state.parent === null && state.id === model.initial);
  while (level.length > 0) {
    active.push(...level.map((state) => state.id));
    const outer = new Set(level.map((state) => state.id));
    level = model.states.filter((state) => state.initial && state.parent !== null && outer.has(state.parent));
  }
  return active;
}

/** Active states with those around them. */
export function withOuter(states: readonly string[]): ReadonlySet<string> {
  const all = new Set<string>();
  for (const id of states) {
    const parts = id.split('.');
    for (let length = 2; length <= parts.length; length++) all.add(parts.slice(0, length).join('.'));
  }
  return all;
}

/** Events that some active state handles. */
export function eventsOf(model: ChartModel, active: ReadonlySet<string>): readonly string[] {
  const inner = model.states.filter((state) => active.has(state.id)).flatMap((state) => state.inner);
  const leaving = model.arrows.filter((arrow) => active.has(arrow.from)).flatMap((arrow) => arrow.events);
  return [...new Set([...leaving, ...inner])].sort();
}
