/** Whatever the text, parsing answers: it never throws, and what it accepts keeps its promises. */
import fc from 'fast-check';
import { dump } from 'js-yaml';
import { describe, expect, it } from 'vitest';
import type { ParsedPlaybook } from '../../../machines/playbook/document.ts';
import { parseDocument, parsePlaybook } from '../../../machines/playbook/parse.ts';
import { referencesOf } from '../../../machines/playbook/references.ts';
import { readTask, toToolConfig } from '../../../machines/playbook/tool-config.ts';

const WORDS = [
  'apiVersion',
  'kind',
  'metadata',
  'workload',
  'workflow',
  'keychain',
  'workbook',
  'executor',
  'step',
  'tool',
  'name',
  'path',
  'next',
  'arcs',
  'when',
  'else',
  'then',
  'do',
  'set',
  'spec',
  'policy',
  'rules',
  'admit',
  'loop',
  'in',
  'iterator',
  'cursor',
  'mode',
  'input',
  'args',
  'output',
  'select',
  'retry',
  'auth',
  'url',
  'code',
  'command',
  'timeout',
  'source',
  'target',
  'type',
  'map',
  'claim',
];
const VALUES = [
  'Playbook',
  'http',
  'noop',
  'python',
  'workbook',
  'a',
  'end',
  'ctx',
  '{{ x }}',
  '{{ 1 +',
  '{% if %}',
  '',
  'cursor',
  'oauth2',
];

const value = fc.letrec((tie) => ({
  node: fc.oneof(
    { maxDepth: 6, depthSize: 'small' },
    fc.constantFrom(...VALUES),
    fc.constantFrom<unknown>(null, true, false, 0, 1, -1, 1.5),
    fc.array(tie('node'), { maxLength: 3 }),
    fc.dictionary(fc.constantFrom(...WORDS), tie('node'), { maxKeys: 5 }),
  ),
})).node;

function check(parsed: ParsedPlaybook, text: string): void {
  const lines = text.split('\n').length;
  for (const diagnostic of [...(parsed.ok ? [] : parsed.errors), ...parsed.warnings]) {
    expect(diagnostic.line).toBeGreaterThanOrEqual(1);
    expect(diagnostic.line).toBeLessThanOrEqual(lines);
    expect(diagnostic.message.endsWith(` (line ${diagnostic.line})`)).toBe(true);
  }
  if (!parsed.ok) {
    expect(parsed.errors.length).toBeGreaterThan(0);
    return;
  }
  const names = new Set(parsed.playbook.steps.map((step) => step.name));
  expect(names.has(parsed.playbook.entryStep)).toBe(true);
  for (const step of parsed.playbook.steps) {
    expect(step.tasks.length).toBeGreaterThan(0);
    for (const arc of step.arcs) expect(arc.to === 'end' || names.has(arc.to)).toBe(true);
    for (const task of step.tasks) expect(readTask(toToolConfig(task), 'x')).toEqual(task);
    referencesOf(step);
  }
}

describe('parsing', () => {
  it('never throws for any text', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (text) => {
        check(parsePlaybook(text), text);
        parseDocument(text);
      }),
      { numRuns: 500 },
    );
  });

  it('never throws for texts of the characters YAML is made of', () => {
    const unit = fc.constantFrom(...'ab:-?[]{},&*!|>\'"%@#~ \n\t{{}}');
    fc.assert(
      fc.property(fc.string({ unit, maxLength: 120 }), (text) => check(parsePlaybook(text), text)),
      { numRuns: 2000 },
    );
  });

  it('never throws for any shape under the keys of the language', () => {
    fc.assert(
      fc.property(value, (root) => {
        const text = dump(root);
        check(parsePlaybook(text, { path: 'p' }), text);
        parseDocument(text);
      }),
      { numRuns: 1000 },
    );
  });

  it('never throws for any tool, routing, loop or keychain of an otherwise good document', () => {
    const broken = fc.record({
      tool: value,
      next: value,
      loop: value,
      spec: value,
      set: value,
      keychain: value,
      workbook: value,
    });
    fc.assert(
      fc.property(
        broken,
        fc.subarray(['tool', 'next', 'loop', 'spec', 'set'] as const),
        ({ keychain, workbook, ...parts }, used) => {
          const step = {
            step: 'a',
            tool: { kind: 'noop' },
            ...Object.fromEntries(used.map((key) => [key, parts[key]])),
          };
          const text = dump({
            apiVersion: 'v2',
            kind: 'Playbook',
            metadata: { name: 'x' },
            keychain,
            workbook,
            workflow: [step],
          });
          check(parsePlaybook(text), text);
        },
      ),
      { numRuns: 1000 },
    );
  });
});
