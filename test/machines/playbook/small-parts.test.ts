import { describe, expect, it } from 'vitest';
import { isExecutable, readStoredKind, storedKindOf } from '../../../machines/playbook/catalog-kind.ts';
import { toEditorWire, toWire } from '../../../machines/playbook/diagnostics.ts';
import type { Diagnostic } from '../../../machines/playbook/document.ts';
import { fitsType, literalNumber, literalSeconds } from '../../../machines/playbook/literal.ts';
import { memberPath, shown } from '../../../machines/playbook/names.ts';
import { parsePlaybook } from '../../../machines/playbook/parse.ts';
import { mergeOutput } from '../../../machines/playbook/read-output.ts';
import { fieldWords } from '../../../machines/playbook/schema-words.ts';
import { isMapField, isTextField, judgeKind, KNOWN_KINDS, toolSpecOf } from '../../../machines/playbook/tool-fields.ts';
import { mergeInputs } from '../../../machines/playbook/workload.ts';
import { documentOf } from '../../support/playbooks.ts';

describe('stored kinds', () => {
  it('know all spellings in any case', () => {
    const spellings = [
      'Playbooks',
      'AGENT',
      'MCP',
      'ModelContextProtocol',
      'Credentials',
      'Secret',
      'secrets',
      'memory',
      'Subscription',
      'x',
    ];
    expect(spellings.map(readStoredKind)).toEqual([
      'playbook',
      'agent',
      'mcp',
      'mcp',
      'credential',
      'credential',
      'credential',
      'memory',
      'subscription',
      null,
    ]);
    expect(readStoredKind('constructor')).toBeNull();
  });

  it('come from the document, except that a playbook can be registered as an agent', () => {
    expect(storedKindOf('Playbook', 'agent')).toBe('agent');
    expect(storedKindOf('Agent', 'playbook')).toBe('agent');
    expect(storedKindOf('MCP', 'agent')).toBe('mcp');
    expect(storedKindOf('Ballet', 'playbook')).toBeNull();
    expect(storedKindOf(null, 'credential')).toBe('credential');
    expect(storedKindOf(null, null)).toBeNull();
  });

  it('are executable only as playbook and agent', () => {
    expect((['playbook', 'agent', 'mcp', 'memory'] as const).map(isExecutable)).toEqual([true, true, false, false]);
  });
});

describe('merged inputs', () => {
  it('lay the request over the workload, key by key at the top', () => {
    expect(mergeInputs({ a: 1, b: { x: 1, y: 2 } }, { b: { x: 3 }, c: 4 })).toEqual({ a: 1, b: { x: 3 }, c: 4 });
  });

  it('spread a ctx map, below the keys beside it', () => {
    expect(mergeInputs({ a: 1 }, { a: 2, ctx: { a: 3, b: 4 } })).toEqual({ a: 2, b: 4 });
  });

  it('keep a ctx that is no map', () => {
    expect(mergeInputs({}, { ctx: 7 })).toEqual({ ctx: 7 });
  });

  it('drop what would reach for a prototype', () => {
    const merged = mergeInputs({}, JSON.parse('{"__proto__": {"a": 1}, "ctx": {"__proto__": {"b": 1}, "c": 2}}'));
    expect(Object.entries(merged)).toEqual([['c', 2]]);
    expect(Object.getPrototypeOf(merged)).toBe(Object.prototype);
  });
});

describe('fields of kinds', () => {
  it('say which are text', () => {
    expect(isTextField('http', ['url'])).toBe(true);
    expect(isTextField('http', ['headers', 'Accept'])).toBe(true);
    expect(isTextField('http', ['auth', 'token'])).toBe(true);
    expect(isTextField('shell', ['cmds', '0'])).toBe(true);
    expect(isTextField('python', ['env', 'A'])).toBe(true);
    expect(isTextField('cursor', ['claim'])).toBe(true);
    expect(isTextField('noop', ['message'])).toBe(true);
  });

  it('say which are values', () => {
    for (const [kind, field] of [
      ['http', 'json'],
      ['http', 'params'],
      ['noop', 'result'],
      ['playbook', 'args'],
      ['mcp', 'arguments'],
      ['cursor', 'options'],
      ['http', 'input'],
      ['nothing', 'url'],
      ['constructor', 'name'],
    ] as const) {
      expect([kind, field, isTextField(kind, [field])]).toEqual([kind, field, false]);
    }
    expect(isTextField('http', [])).toBe(false);
  });

  it('say which are maps', () => {
    const fields = [
      ['http', 'headers'],
      ['shell', 'env'],
      ['http', 'url'],
      ['http', 'nothing'],
      ['nothing', 'headers'],
    ] as const;
    expect(fields.map(([kind, name]) => isMapField(kind, name))).toEqual([true, true, false, false, false]);
  });

  it('have a row for every kind a document may use', () => {
    for (const kind of KNOWN_KINDS) {
      const verdict = judgeKind(kind);
      expect(['tool', 'workbook']).toContain(verdict.is);
      if (verdict.is === 'tool') expect(toolSpecOf(verdict.kind)).toBe(verdict.spec);
    }
  });
});

describe('literals', () => {
  it('read numbers from numeric text only', () => {
    expect(['1', ' 2.5 ', '-3', '1e3', '.5', 7].map(literalNumber)).toEqual([1, 2.5, -3, 1000, 0.5, 7]);
    expect(['', 'x', '1x', '0x10', 'Infinity', null, true, [1]].map(literalNumber)).toEqual(Array(8).fill(null));
  });

  it('read seconds with units', () => {
    expect(['30', '30s', '5m', '1h', '2d', '500ms', 1.5].map(literalSeconds)).toEqual([
      30, 30, 300, 3600, 172800, 0.5, 1.5,
    ]);
    expect(['0', '-1', 'soon', '1 week', 0, null, {}].map(literalSeconds)).toEqual(Array(7).fill(null));
  });
});

describe('spelling', () => {
  it('of places follows the document', () => {
    expect(memberPath(memberPath(memberPath('', 'workflow'), 2), 'tool')).toBe('workflow[2].tool');
    expect(memberPath('set', 'ctx.a')).toBe("set['ctx.a']");
  });

  it('of hostile names is cut', () => {
    expect(shown('x'.repeat(200))).toHaveLength(101);
  });

  it('of diagnostics on the wire has no more than callers were promised', () => {
    const diagnostic: Diagnostic = {
      severity: 'error',
      code: 'tool_missing',
      message: 'm',
      step: 'end',
      task: null,
      path: 'workflow[2]',
      line: 31,
      column: 5,
      endLine: 31,
      endColumn: 9,
    };
    const wire = {
      code: 'tool_missing',
      message: 'm',
      step: 'end',
      task: null,
      path: 'workflow[2]',
      line: 31,
      column: 5,
    };
    expect(toWire(diagnostic)).toEqual(wire);
    expect(toEditorWire(diagnostic)).toEqual({ severity: 'error', ...wire, end_line: 31, end_column: 9 });
  });
});

describe('a literal', () => {
  it('of no time at all is no time', () => {
    expect([literalSeconds('0s'), literalSeconds('5m')]).toEqual([null, 300]);
  });

  it('fits a scalar field when it is neither list nor map', () => {
    const fits = [1, 'a', true, null, [1], { a: 1 }].map((value) => fitsType(value, 'scalar'));
    expect(fits).toEqual([true, true, true, true, false, false]);
  });
});

describe('output options', () => {
  const options = { select: [], inlineMaxBytes: null, previewMaxBytes: null, store: null };
  const picked = [{ path: 'a.b', as: 'b' }];

  it('of a step are laid over those of its last task', () => {
    const task = { ...options, select: picked, inlineMaxBytes: 5, store: 'disk' };
    expect(mergeOutput(task, null)).toBe(task);
    expect(mergeOutput(null, task)).toBe(task);
    expect(mergeOutput(task, { ...options, inlineMaxBytes: 7 })).toEqual({ ...task, inlineMaxBytes: 7 });
    const step = { ...options, select: [{ path: 'c', as: 'c' }], store: 'db' };
    expect(mergeOutput(task, step)).toEqual({ ...step, inlineMaxBytes: 5 });
  });

  it('name what is selected by its last part, or by the path where that has none', () => {
    const text = documentOf([{ step: 'a', tool: { kind: 'noop' }, output: { select: ['rows[0].id', '.'] } }]);
    const parsed = parsePlaybook(text);
    expect(parsed.ok && parsed.playbook.steps[0]?.tasks[0]?.output?.select).toEqual([
      { path: 'rows[0].id', as: 'id' },
      { path: '.', as: '.' },
    ]);
  });
});

describe('words of the schema', () => {
  it('there are none for a field that no tool has', () => {
    expect(fieldWords('http', 'nosuch')).toBeUndefined();
    expect(fieldWords('nosuch', 'auth')).toBeDefined();
  });
});
