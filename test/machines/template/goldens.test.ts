/** The dialect against Python's Jinja2: same values, same text, same refusals, save where language 8 decides otherwise. */
import { describe, expect, it } from 'vitest';
import { TemplateError, TemplateSyntaxError } from '../../../machines/playbook/template/errors.ts';
import { raised, readGoldens, text, value } from './scope.ts';

const goldens = readGoldens();

/** Expressions whose result language.md fixes differently, and where. */
const OURS = new Map<string, unknown>([
  ['workload | tojson', JSON.stringify(goldens.data['workload'])], // 8.9: compact, key order kept, no HTML escaping
  ['workload.a | tojson', '{"b":5,"k":"v"}'],
  ['[1, 2] | tojson', '[1,2]'],
  ["{'a': 1} | tojson", '{"a":1}'],
  ['workload.tags | tojson | length', 17],
  ['workload.a.items', undefined], // 8.11: a method is found only when it is called
  ["workload.nul | default('d')", 'd'], // 8.7.3: default replaces null too
  ["none | default('x')", 'x'],
  ["[1, 'a', 2.5, none, true] | join(';')", '1;a;2.5;;True'], // 8.6: null prints as nothing
  ["'a' ~ none ~ true", 'aTrue'],
]);

/** Python changes the list; here nothing mutates (8.11). */
const REFUSED = new Set(["workload.tags.append('x')"]);

const OUR_TEXTS = new Map([
  ['a {#- c -#} b', 'a {#- c -#} b'], // 8.5: neither `{{` nor `{%`, so it is no template
  ['x\r\n{{ 1 }}\r\n', 'x\r\n1'], // line ends are the author's
]);

describe('an expression has the value Jinja2 gives it', () => {
  for (const golden of goldens.expressions) {
    const { expression } = golden;
    it(expression, () => {
      if (golden.error !== undefined || REFUSED.has(expression)) {
        const error = raised(() => value(expression, goldens.data));
        expect(error instanceof TemplateError || error instanceof TemplateSyntaxError).toBe(true);
        return;
      }
      const expected = OURS.has(expression)
        ? OURS.get(expression)
        : golden.undefined === true
          ? undefined
          : golden.value;
      expect(value(expression, goldens.data)).toEqual(expected);
    });
  }
});

describe('a text is what Jinja2 makes of it', () => {
  for (const golden of goldens.texts) {
    it(JSON.stringify(golden.template), () => {
      if (golden.error === undefined) {
        expect(text(golden.template, goldens.data)).toBe(OUR_TEXTS.get(golden.template) ?? golden.text);
        return;
      }
      const error = raised(() => text(golden.template, goldens.data));
      expect(error instanceof TemplateError || error instanceof TemplateSyntaxError).toBe(true);
    });
  }
});
