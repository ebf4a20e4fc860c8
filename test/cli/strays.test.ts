import { EventEmitter } from 'node:events';
import { expect, test } from 'vitest';
import { surviveStrays } from '../../src/cli/strays.ts';

test('HT-08 a rejection nobody listens to is told, whatever it is, and is not thrown', () => {
  const said: unknown[][] = [];
  const source = new EventEmitter();
  surviveStrays({ error: (...words) => said.push(words) }, source);
  const defect = new Error('a defect');
  source.emit('unhandledRejection', defect, Promise.resolve());
  source.emit('unhandledRejection', undefined, Promise.resolve());
  expect(said).toEqual([
    ['A promise was rejected and nobody listened', { error: defect }],
    ['A promise was rejected and nobody listened', { error: new Error('undefined') }],
  ]);
});
