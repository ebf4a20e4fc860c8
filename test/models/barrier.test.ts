/**
 * The fan-in barrier against language 5.1, 5.5 and 5.6 written down once more, over random graphs with back edges, self-arcs,
 * both modes and guards that change from round to round: the same steps are entered and passed over, in the same order.
 */
import { describe, expect, test } from 'vitest';
import { step } from '../support/playbooks.ts';
import { given } from '../support/story.ts';

interface Arc {
  readonly to: string;
  /** By activation, over and over. */
  readonly when: readonly boolean[];
}

interface Graph {
  readonly names: readonly string[];
  readonly arcs: ReadonlyMap<string, readonly Arc[]>;
  readonly isInclusive: ReadonlyMap<string, boolean>;
}

const GRAPHS = 300;
/** Chosen so that graphs are among them in which only a way through the join itself leads back to its branches. */
const FIRST_SEED = 800;
const ROUNDS = 4;
const ENDS_MAX = 40;

/** A small generator of its own: the same graphs every time. */
function draws(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function drawGraph(draw: () => number): Graph {
  const names = Array.from({ length: 3 + Math.floor(draw() * 5) }, (_, index) => `s${index}`);
  const arcs = new Map<string, Arc[]>();
  const isInclusive = new Map<string, boolean>();
  for (const [index, name] of names.entries()) {
    isInclusive.set(name, draw() < 0.6);
    const count = Math.floor(draw() * 4);
    arcs.set(
      name,
      Array.from({ length: count }, () => {
        const target = Math.floor(draw() * names.length);
        // Most ways lead on, or few runs would end.
        const chance = target <= index ? 0.25 : 0.75;
        return { to: `s${target}`, when: Array.from({ length: ROUNDS }, () => draw() < chance) };
      }),
    );
  }
  return { names, arcs, isInclusive };
}

class Model {
  readonly told: string[] = [];
  readonly open = new Set<string>();
  readonly #graph: Graph;
  readonly #up = new Map<string, Set<string>>();
  readonly #joins = new Set<string>();
  readonly #activations = new Map<string, number>();
  readonly #passed = new Set<string>();

  constructor(graph: Graph) {
    this.#graph = graph;
    for (const name of graph.names) this.#up.set(name, new Set());
    this.#findUpstream();
    this.#dispatch('s0');
  }

  /** The open activation of a step ends. */
  end(name: string): void {
    this.open.delete(name);
    const arcs = this.#arcs(name);
    const round = ((this.#activations.get(name) ?? 1) - 1) % ROUNDS;
    const isTrue = arcs.filter(({ when }) => when[round]).map(({ to }) => to);
    const taken = new Set(this.#graph.isInclusive.get(name) ? isTrue : isTrue.slice(0, 1));
    for (const to of taken) {
      const up = this.#upOf(to);
      if (up.size <= 1 || !up.has(name)) this.#dispatch(to);
      else this.#joins.add(to);
    }
    this.#release();
    for (const { to } of arcs) if (!taken.has(to)) this.#pass(to);
  }

  #release(): void {
    for (;;) {
      const waiting = this.#graph.names.filter((name) => this.#joins.has(name));
      const ready = waiting.find((join) => !this.open.has(join) && !this.#isLive(join));
      const next = ready ?? (this.open.size === 0 ? waiting[0] : undefined);
      if (next === undefined) return;
      this.#dispatch(next);
    }
  }

  #dispatch(name: string): void {
    this.#joins.delete(name);
    if (this.open.has(name)) return;
    this.open.add(name);
    this.#activations.set(name, (this.#activations.get(name) ?? 0) + 1);
    this.told.push(`step.enter ${name}`);
  }

  #pass(name: string): void {
    const active = [...this.open, ...this.#joins];
    if (this.#activations.has(name) || this.#passed.has(name) || active.includes(name)) return;
    if (active.some((each) => this.#behind(each, null).has(name))) return;
    this.#passed.add(name);
    this.told.push(`step.skipped ${name}`);
  }

  #isLive(join: string): boolean {
    const up = this.#upOf(join);
    return [...this.open, ...this.#joins].some(
      (each) => each !== join && (up.has(each) || [...this.#behind(each, join)].some((step) => up.has(step))),
    );
  }

  /** What can follow a step without passing another. */
  #behind(name: string, avoided: string | null): ReadonlySet<string> {
    const found = new Set<string>();
    const waiting = this.#arcs(name).map(({ to }) => to);
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (next === avoided || found.has(next)) continue;
      found.add(next);
      waiting.push(...this.#arcs(next).map(({ to }) => to));
    }
    return found;
  }

  #findUpstream(): void {
    const done = new Set<string>();
    const stack = new Set<string>();
    const walk = (name: string): void => {
      stack.add(name);
      for (const { to } of this.#arcs(name)) {
        if (stack.has(to)) continue;
        this.#upOf(to).add(name);
        if (!done.has(to)) walk(to);
      }
      stack.delete(name);
      done.add(name);
    };
    for (const name of this.#graph.names) if (!done.has(name)) walk(name);
  }

  #arcs(name: string): readonly Arc[] {
    return this.#graph.arcs.get(name) ?? [];
  }

  #upOf(name: string): Set<string> {
    return this.#up.get(name) ?? new Set();
  }
}

describe('joins', () => {
  test(`open as the language says, in ${GRAPHS} random graphs`, () => {
    for (let seed = FIRST_SEED; seed < FIRST_SEED + GRAPHS; seed += 1) {
      const draw = draws(seed);
      const graph = drawGraph(draw);
      const model = new Model(graph);
      const story = given(
        graph.names.map((name) => {
          const arcs = (graph.arcs.get(name) ?? []).map(({ to, when }) => ({
            step: to,
            when: `{{ ${JSON.stringify(when)}[(steps.${name}.activation - 1) % ${ROUNDS}] }}`,
          }));
          return step(name, {
            next: { spec: { mode: graph.isInclusive.get(name) ? 'inclusive' : 'exclusive' }, arcs },
          });
        }),
      );
      story.isChecked = false;
      story.start();
      for (let ends = 0; ends < ENDS_MAX && model.open.size > 0; ends += 1) {
        const open = [...model.open];
        const name = open[Math.floor(draw() * open.length)] ?? '';
        model.end(name);
        story.ok(name);
        const told = story.decisions.filter((line) => /^step\.(enter|skipped) /.test(line));
        expect(told, `graph ${seed}, after ${ends + 1} ends`).toEqual(model.told);
      }
      expect(story.isEnded, `graph ${seed}`).toBe(model.open.size === 0);
    }
  });
});
