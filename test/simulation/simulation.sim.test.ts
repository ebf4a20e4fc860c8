import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { Kernel } from './kernel.ts';
import { MUTANTS, patchesOf, TINY } from './patches.ts';
import { drawPlan } from './plan.ts';
import { runSeeds } from './seeds.ts';
import { NO_CUT } from './shrink.ts';
import { simulate } from './simulation.ts';

/** FC_SEED looks at other seeds. */
const FIRST = Number(process.env['FC_SEED'] ?? 70_001);

async function failuresOf(first: number, count: number): Promise<string> {
  const lines: string[] = [];
  await runSeeds({
    ...{
      first,
      count,
      stride: 1,
      isAlone: false,
      cut: NO_CUT,
      twiceEvery: 0,
      isVerbose: false,
      isShrinking: false,
      failuresMax: 1,
    },
    ...{ again: ' --plain', say: (line: string) => lines.push(line), onSeed: () => {} },
  });
  return lines.join('\n');
}

describe('the simulator', () => {
  test.each([...TINY, ...MUTANTS.flatMap(patchesOf)].map((patch) => [patch.file, patch.find, patch] as const))(
    'changes one place of %s: %s',
    (file, find, { replace }) => {
      const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
      expect(text.split(find)).toHaveLength(2);
      expect(replace).not.toBe(find);
    },
  );

  test('lets what waited for the end of a pause happen when that is ended early', async () => {
    const kernel = new Kernel();
    const [paused, other] = [kernel.life('paused'), kernel.life('other')];
    const seen: string[] = [];
    const note = (text: string) => () => void seen.push(`${kernel.now} ${text}`);
    paused.pausedUntil = 10_000;
    kernel.after(10, paused, 'first', note('first'));
    kernel.after(20, paused, 'second', note('second'));
    kernel.after(700, other, 'not concerned', note('not concerned'));
    kernel.after(900, paused, 'later', note('later'));
    await kernel.run(500);
    expect(seen).toEqual([]);
    kernel.wake(paused);
    await kernel.run(1_000);
    expect(seen).toEqual(['500 first', '500 second', '700 not concerned', '900 later']);
  });

  test('finds the invariants kept and everything ended', async () => {
    expect(await failuresOf(FIRST, 150)).toBe('');
  }, 60_000);

  test('runs a seed the same way twice', async () => {
    for (let seed = FIRST; seed < FIRST + 12; seed += 1) {
      const first = await simulate(drawPlan(seed));
      const second = await simulate(drawPlan(seed));
      expect(second.hash).toBe(first.hash);
      expect(second.events).toBe(first.events);
    }
  }, 60_000);
});
