/**
 * The step graph of a playbook: arcs without their guards. A back edge is found by a depth-first walk from the entry
 * step in document order (language 5.5), so that a fan-in barrier knows which arcs it has to wait for.
 */

import { known } from '../known.ts';
import type { Playbook } from './document.ts';

export interface Graph {
  /** Position of a step in the workflow. */
  readonly order: ReadonlyMap<string, number>;
  /** Distinct defined targets of a step, in document order. */
  targets(step: string): readonly string[];
  isBack(from: string, to: string): boolean;
  /** Sources of arcs into `step` that are not back edges. */
  up(step: string): ReadonlySet<string>;
  /** Steps that can follow `step` over any arcs; `step` itself only when it lies on a cycle. */
  after(step: string): ReadonlySet<string>;
  /** The same as a set of bits by `order`, a word for 32 steps; shared, not to be changed. */
  afterBits(step: string): Uint32Array;
  /** Whether a path (any arcs, at least one) leads from `step` to a member of `goals` without passing `avoided`. */
  reaches(step: string, goals: ReadonlySet<string>, avoided: string): boolean;
}

const NONE: ReadonlySet<string> = new Set();

export function buildGraph(playbook: Playbook): Graph {
  const order = new Map(playbook.steps.map((step, index) => [step.name, index]));
  const targets = new Map<string, readonly string[]>();
  for (const step of playbook.steps) {
    targets.set(
      step.name,
      [...new Set(step.arcs.map((arc) => arc.to))].filter((to) => order.has(to)),
    );
  }
  const back = findBackEdges(playbook, targets);
  const up = new Map<string, Set<string>>();
  for (const [from, list] of targets) {
    for (const to of list) {
      if (back.has(`${from}\n${to}`)) continue;
      const sources = up.get(to) ?? new Set<string>();
      sources.add(from);
      up.set(to, sources);
    }
  }
  const following = new Map<string, ReadonlySet<string>>();
  const followingBits = new Map<string, Uint32Array>();
  const paths = new Map<string, boolean>();

  const walk = (start: string, avoided: string | null, found: (step: string) => boolean): Set<string> => {
    const seen = new Set<string>();
    const stack = [...(targets.get(start) ?? [])];
    for (let step = stack.pop(); step !== undefined; step = stack.pop()) {
      if (seen.has(step) || step === avoided) continue;
      seen.add(step);
      if (found(step)) break;
      stack.push(...known(targets.get(step)));
    }
    return seen;
  };

  return {
    order,
    targets: (step) => known(targets.get(step)),
    isBack: (from, to) => back.has(`${from}\n${to}`),
    up: (step) => up.get(step) ?? NONE,
    after(step) {
      let set = following.get(step);
      if (set === undefined) {
        set = walk(step, null, () => false);
        following.set(step, set);
      }
      return set;
    },
    afterBits(step) {
      let bits = followingBits.get(step);
      if (bits === undefined) {
        bits = new Uint32Array(Math.ceil(order.size / 32));
        for (const next of this.after(step)) setBit(bits, known(order.get(next)));
        followingBits.set(step, bits);
      }
      return bits;
    },
    reaches(step, goals, avoided) {
      const key = `${step}\n${avoided}`;
      let found = paths.get(key);
      if (found === undefined) {
        found = false;
        walk(step, avoided, (at) => {
          if (goals.has(at)) found = true;
          return found === true;
        });
        paths.set(key, found);
      }
      return found;
    },
  };
}

export function setBit(bits: Uint32Array, index: number): void {
  bits[index >>> 5] = known(bits[index >>> 5]) | (1 << (index & 31));
}

/** Iterative, so that a chain of a thousand steps does not use the stack of the process. */
function findBackEdges(playbook: Playbook, targets: ReadonlyMap<string, readonly string[]>): ReadonlySet<string> {
  const back = new Set<string>();
  const done = new Set<string>();
  const onStack = new Set<string>();
  const visit = (root: string): void => {
    const stack: { step: string; next: number }[] = [{ step: root, next: 0 }];
    onStack.add(root);
    for (let frame = stack.at(-1); frame !== undefined; frame = stack.at(-1)) {
      const to = targets.get(frame.step)?.[frame.next];
      frame.next += 1;
      if (to === undefined) {
        stack.pop();
        onStack.delete(frame.step);
        done.add(frame.step);
      } else if (onStack.has(to)) {
        back.add(`${frame.step}\n${to}`);
      } else if (!done.has(to)) {
        onStack.add(to);
        stack.push({ step: to, next: 0 });
      }
    }
  };
  visit(playbook.entryStep);
  // Steps that the entry cannot reach still need a consistent answer.
  for (const step of playbook.steps) if (!done.has(step.name)) visit(step.name);
  return back;
}
