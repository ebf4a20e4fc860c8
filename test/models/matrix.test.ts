/** EV-10: every chart in every situation with every event, against a table written by hand from the contract. */
import { describe, expect, test } from 'vitest';
import { CHARTS } from '../../machines/index.ts';
import { canHappen, type Letter, MODELS, type Model, pathsOf, walk } from './charts.ts';

const copyOf = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

test('every chart has a model', () => {
  expect(Object.keys(MODELS).sort()).toEqual(CHARTS.map((chart) => chart.name).sort());
  for (const chart of CHARTS) expect(MODELS[chart.name]?.machine).toBe(chart.machine);
});

describe.each(Object.entries(MODELS))('EV-10: the %s chart', (_name, model) => {
  const ways = pathsOf(model, 'shortest');
  const situations = new Map(ways.map((way) => [model.situation(way.snapshot), way]));

  test('is led into every situation of the table, and into no other', () => {
    expect([...situations.keys()].sort()).toEqual(Object.keys(model.table).sort());
  });

  test('takes what the table says, and anything else leaves it as it is', () => {
    let ignored = 0;
    let taken = 0;
    let unwritten = 0;
    for (const [situation, { word, snapshot }] of situations) {
      for (const letter of model.letters) {
        const before = copyOf([snapshot.value, snapshot.context]);
        const after = walk(model, [...word, letter]);
        const expected = model.table[situation]?.[letter.name];
        if (!canHappen(model, situation, letter)) {
          unwritten += 1;
          continue;
        }
        const where = `${letter.name} in '${situation}'`;
        expect(model.situation(after.snapshot), where).toBe(expected ?? situation);
        if (expected !== undefined) {
          taken += 1;
          continue;
        }
        ignored += 1;
        expect(copyOf([after.snapshot.value, after.snapshot.context]), where).toEqual(before);
        expect(after.decisions, where).toEqual([]);
      }
    }
    // The whole matrix.
    expect(taken + ignored + unwritten).toBe(situations.size * model.letters.length);
    expect(taken).toBe(Object.values(model.table).reduce((sum, row) => sum + Object.keys(row).length, 0));
  });

  test('ends where the table says on every simple path', () => {
    const paths = pathsOf(model, 'simple', lettersToWalk(model));
    expect(paths.length).toBeGreaterThanOrEqual(situations.size);
    for (const { word, snapshot } of paths) {
      let situation = model.situation(walk(model, []).snapshot);
      for (const { name } of word) situation = model.table[situation]?.[name] ?? situation;
      expect(model.situation(snapshot), word.map(({ name }) => name).join(', ')).toBe(situation);
    }
  });

  test('takes every two events in both orders', () => {
    for (const { word } of situations.values()) {
      const begin = model.situation(walk(model, word).snapshot);
      for (const one of model.letters) {
        if (!canHappen(model, begin, one)) continue;
        const between = model.table[begin]?.[one.name] ?? begin;
        for (const other of model.letters) {
          if (!canHappen(model, between, other)) continue;
          const both = walk(model, [...word, one, other]);
          expect(model.situation(both.snapshot), `${one.name}, then ${other.name}`).toBe(
            model.table[between]?.[other.name] ?? between,
          );
        }
      }
    }
  });

  test('says after any path what could happen next, and no more', () => {
    for (const { snapshot } of ways) {
      const types = new Set(model.letters.map(({ event }) => event.type));
      const taken = Object.keys(model.table[model.situation(snapshot)] ?? {});
      for (const name of taken) {
        const letter = model.letters.find((each) => each.name === name) as Letter;
        expect(types.has(letter.event.type)).toBe(true);
        expect(snapshot.can(letter.event), name).toBe(true);
      }
    }
  });
});

function lettersToWalk({ letters, walked }: Model): readonly Letter[] {
  return walked === null ? letters : letters.filter(({ name }) => walked.includes(name));
}
