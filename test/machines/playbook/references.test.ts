import { describe, expect, it } from 'vitest';
import type { Step } from '../../../machines/playbook/document.ts';
import { parsePlaybook } from '../../../machines/playbook/parse.ts';
import { type References, referencesOf } from '../../../machines/playbook/references.ts';
import { workflow } from './marked-text.ts';

function stepOf(tool: string, lines = ''): Step {
  const parsed = parsePlaybook(workflow(`  - step: a\n    tool: ${tool}\n${lines}`));
  if (!parsed.ok) throw new Error(parsed.errors.map((error) => error.message).join('\n'));
  const [step] = parsed.playbook.steps;
  if (!step) throw new Error('no step');
  return step;
}
const of = (tool: string, lines?: string): References => referencesOf(stepOf(tool, lines));

describe('references of a step', () => {
  it('are the free names of all its templates', () => {
    const tool = `[{ name: t, kind: http, url: "{{ one }}", headers: { "{{ two }}": "{{ three }}" }, input: { a: ["{{ four.x }}"] },
      timeout: "{{ five }}", set: { b: "{{ six }}" }, spec: { policy: { rules: [
        { when: "seven > 1", then: { do: retry, attempts: "{{ eight }}", set: { c: "{{ nine }}" } } }] } } },
      { name: u, kind: noop, message: "{% for x in ten %}{{ x }}{% endfor %}" }]`;
    expect(of(tool)).toEqual({
      roots: ['eight', 'five', 'four', 'nine', 'one', 'seven', 'six', 'ten', 'three', 'two'],
      everything: false,
      keychain: [],
      everyKeychainEntry: false,
    });
  });

  it('include step input and the claim of a cursor, not what the engine renders', () => {
    const lines = `    input: { a: "{{ one }}" }
    loop: { cursor: { kind: postgres, auth: "{{ two }}", claim: "{{ three }}", options: { x: "{{ no }}" } }, iterator: i, spec: { mode: cursor } }
    set: { b: "{{ no }}" }
    next: { arcs: [{ step: a, when: "{{ no }}" }] }
`;
    expect(of('{ kind: noop }', lines).roots).toEqual(['one', 'three', 'two']);
  });

  it('name the steps that are read through steps', () => {
    expect(of(`{ kind: noop, message: "{{ steps.b.status }} {{ steps['odd name'].data }}" }`)).toMatchObject({
      roots: ['b', 'odd name', 'steps'],
      everything: false,
    });
  });

  it.each(['steps[x]', "steps['a' ~ x].data", 'steps | length', 'steps.items()', 'steps.b ~ steps[x]', 'steps'])(
    'are everything for %s',
    (expression) => {
      expect(of(`{ kind: noop, message: "{{ ${expression} }}" }`).everything).toBe(true);
    },
  );

  it('name the keychain entries', () => {
    const tool = `{ kind: http, url: x, headers: { A: "{{ keychain.one.token }}", B: "{{ keychain['two'].token }}" } }`;
    expect(of(tool)).toMatchObject({ keychain: ['one', 'two'], everyKeychainEntry: false });
    expect(of('{ kind: http, url: x, headers: { A: "{{ keychain[x].token }}" } }').everyKeychainEntry).toBe(true);
  });

  it('are everything when code mentions the context or cannot be seen', () => {
    expect(of('{ kind: python, code: "result = context[1]" }').everything).toBe(true);
    expect(of('{ kind: javascript, code_b64: cmV0dXJu }').everything).toBe(true);
    expect(of('{ kind: python, code: "result = contextual" }').everything).toBe(false);
    expect(of('{ kind: shell, command: echo context }').everything).toBe(false);
  });

  it('are told once per step', () => {
    const step = stepOf('{ kind: noop, message: "{{ x }}" }');
    expect(referencesOf(step)).toBe(referencesOf(step));
  });
});
