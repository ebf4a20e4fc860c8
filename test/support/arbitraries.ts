/** Random playbooks and random choices for the laws. A failure prints seed and path; FC_SEED runs it again. */
import fc from 'fast-check';
import type { JsonMap } from '../../machines/json.ts';
import { admission, step } from './playbooks.ts';

/** Laws run the same cases each time unless FC_SEED says otherwise; FC_RUNS looks further. */
export function law(numRuns: number): fc.Parameters<unknown> {
  const { FC_SEED, FC_RUNS } = process.env;
  return {
    seed: FC_SEED === undefined ? 20_261_120 : Number(FC_SEED),
    numRuns: FC_RUNS === undefined ? numRuns : Number(FC_RUNS),
  };
}

const GUARDS = [
  null,
  null,
  null,
  'false',
  '(ctx.n or 0) % 2 == 0',
  '(ctx.n or 0) < 4',
  "event.name == 'call.error'",
  "event.name == 'step.done'",
  "event.name == 'step.skipped'",
  "output.status == 'error'",
  'output.data == 1',
  'error.retryable',
] as const;

const arcs = fc.array(fc.record({ to: fc.nat(7), when: fc.constantFrom(...GUARDS), set: fc.boolean() }), {
  maxLength: 3,
});

const loop = fc.record({
  size: fc.nat(4),
  mode: fc.constantFrom('sequential', 'parallel'),
  limit: fc.integer({ min: 1, max: 3 }),
  failure: fc.constantFrom(null, 'fail_fast', 'best_effort'),
});

const stepShape = fc.record({
  arcs,
  mode: fc.constantFrom('exclusive', 'inclusive'),
  loop: fc.option(loop, { freq: 3 }),
  admit: fc.constantFrom(null, null, null, null, 'false', '(ctx.n or 0) > 1'),
  set: fc.constantFrom(null, null, '{{ (ctx.n or 0) + 1 }}', '{{ output.data + 1 }}'),
});

/** Steps with arcs anywhere, loops, admission, counters; whether a run of it ends well is up to chance. */
export const workflows: fc.Arbitrary<readonly JsonMap[]> = fc
  .array(stepShape, { minLength: 1, maxLength: 6 })
  .map((shapes) =>
    shapes.map((shape, index) => {
      const admit = shape.admit === null ? {} : admission([shape.admit, false]);
      const policy =
        shape.loop === null || shape.loop.failure === null ? {} : { failure: { mode: shape.loop.failure } };
      return step(`s${index}`, {
        next: {
          spec: { mode: shape.mode },
          arcs: shape.arcs.map((each) => ({
            step: `s${each.to % shapes.length}`,
            ...(each.when === null ? {} : { when: each.when }),
            ...(each.set ? { set: { 'ctx.n': '{{ (ctx.n or 0) + 1 }}' } } : {}),
          })),
        },
        spec: { policy: { ...(admit['spec'] as { policy: JsonMap } | undefined)?.policy, ...policy } },
        ...(shape.set === null ? {} : { set: { 'ctx.n': shape.set } }),
        ...(shape.loop === null
          ? {}
          : {
              loop: {
                in: shape.loop.size,
                iterator: 'item',
                spec: { mode: shape.loop.mode, max_in_flight: shape.loop.limit },
              },
            }),
      });
    }),
  );

/** Steps whose arcs all lead forward and are all taken. */
export const forwardWorkflows: fc.Arbitrary<readonly JsonMap[]> = fc
  .array(fc.array(fc.nat(6), { minLength: 1, maxLength: 3 }), { minLength: 2, maxLength: 7 })
  .map((targets) =>
    targets.map((list, index) =>
      step(`s${index}`, {
        next: {
          spec: { mode: 'inclusive' },
          arcs: [...new Set(list.map((to) => index + 1 + (to % (targets.length - index))))]
            .filter((to) => to < targets.length)
            .map((to) => ({ step: `s${to}` })),
        },
      }),
    ),
  );

/** Endless choices from a seed: the same seed chooses the same. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** 0 … below − 1. */
  below(limit: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  }

  isOneIn(chances: number): boolean {
    return this.below(chances) === 0;
  }

  pick<T>(list: readonly T[]): T {
    const found = list[this.below(list.length)];
    if (found === undefined) throw new Error('nothing to pick from');
    return found;
  }
}

export const seeds = fc.integer({ min: 1, max: 1_000_000_000 });
