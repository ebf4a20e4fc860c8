import { afterAll, describe, expect, it } from 'vitest';
import { judgeKind, KNOWN_KINDS } from '../../machines/playbook/tool-fields.ts';
import { openTools } from './harness.ts';

const tools = openTools();
afterAll(() => tools[Symbol.asyncDispose]());

/** The worker starts a child by itself; a workbook reference is replaced before anything runs. */
const withoutTool = new Set(['playbook', 'workbook']);

describe('the registry', () => {
  it('has a tool for every kind that registration accepts, and no others', () => {
    const accepted = KNOWN_KINDS.map((kind) => judgeKind(kind)).flatMap((verdict) =>
      verdict.is === 'tool' && !withoutTool.has(verdict.kind) ? [verdict.kind] : [],
    );
    expect([...tools.tools.keys()].sort()).toEqual([...new Set(accepted)].sort());
  });
});
