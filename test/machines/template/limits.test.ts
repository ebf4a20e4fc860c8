/** No template runs for long or makes much (language 8.12.3), with the default limits and without a clock. */
import { describe, expect, it } from 'vitest';
import { compileTemplate } from '../../../machines/playbook/template/compiled.ts';
import { TemplateError, TemplateSyntaxError } from '../../../machines/playbook/template/errors.ts';
import { renderText, renderValue } from '../../../machines/playbook/template/render.ts';
import { DEFAULT_LIMITS } from '../../../machines/playbook/template/run.ts';
import { processorTime } from '../../support/processor-time.ts';
import { raised, scopeOf, text, value } from './scope.ts';

/** Milliseconds; the machine that runs this may be busy. */
const BOUND = 3_000;
const deep: unknown = JSON.parse('['.repeat(3_000) + ']'.repeat(3_000));
const data = {
  word: 'a'.repeat(1_000_000),
  spaces: ' '.repeat(200_000),
  list: Array.from({ length: 20_000 }, (_none, index) => index),
  words: Array.from({ length: 20_000 }, (_none, index) => `w${index}`),
  maps: Array.from({ length: 5_000 }, (_none, index) => ({ id: index })),
  deep,
  deeper: JSON.parse('['.repeat(3_000) + ']'.repeat(3_000)),
};

function timed(evaluate: () => unknown): { readonly error: Error | null; readonly ms: number } {
  const spent = processorTime();
  const error = raised(evaluate);
  return { error, ms: spent() };
}

describe('TP-05 ends early with TEMPLATE_LIMIT', () => {
  it.each([
    '{% for i in range(10000000) %}x{% endfor %}',
    '{{ range(1000000000) | list }}',
    '{{ range(100001) }}',
    "{{ 'x' | center(100000000) }}",
    "{{ 'x'.center(100000000) }}",
    "{{ 'x'.ljust(1000000000) }}",
    "{{ 'x'.zfill(1000000000) }}",
    "{{ 'x' * 1000000000 }}",
    "{{ 'x' * 100000 * 100000 }}",
    '{{ [0] * 1000000000 }}',
    '{{ [[0] * 100000] * 100000 }}',
    '{{ ([0] * 100000) * 2 }}',
    '{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}',
    '{% for i in range(1000) %}{% for j in range(1000) %}{% for k in range(1000) %}{% endfor %}{% endfor %}{% endfor %}',
    "{% set s = namespace(v='x') %}{% for i in range(100) %}{% set s.v = s.v ~ s.v %}{% endfor %}{{ s.v }}",
    '{% set s = namespace(v=[0]) %}{% for i in range(100) %}{% set s.v = s.v + s.v %}{% endfor %}{{ s.v }}',
    '{% set s = namespace(v=[0]) %}{% for i in range(100) %}{% set s.v = [s.v, s.v] %}{% endfor %}{{ s.v }}',
    '{% set s = namespace(v=[0], w=[0]) %}{% for i in range(100) %}{% set s.v = [s.v, s.v] %}{% set s.w = [s.w, s.w] %}{% endfor %}{{ s.v == s.w }}',
    '{% set s = namespace(v=[0]) %}{% for i in range(2000) %}{% set s.v = [s.v] %}{% endfor %}{{ s.v }}',
    '{% set s = namespace(v=[0], w=[1]) %}{% for i in range(2000) %}{% set s.v = [s.v] %}{% set s.w = [s.w] %}{% endfor %}{{ s.v < s.w }}',
    "{{ ('a' * 100000) | replace('', 'b' * 1000) }}",
    "{{ ('a' * 100000) | replace('a', 'b' * 1000) }}",
    "{{ ('a\n' * 100000) | indent(100000) }}",
    "{{ ('a ' * 100000) | wordwrap(1, true, 'b' * 1000) }}",
    "{{ (['a'] * 100000) | join('b' * 1000) }}",
    "{{ ('b' * 1000).join(['a'] * 100000) }}",
    "{{ [1] | batch(1000000000, 'x') }}",
    '{{ [1] | slice(1000000000) }}',
    "{{ [[1]] | map('batch', 90000, 'x') | map('tojson') | list * 1 }}{% for i in range(1000) %}{{ range(90000) }}{% endfor %}",
    '{% for i in range(100000) %}{{ word | wordcount }}{% endfor %}',
    '{% for i in range(100000) %}{{ word | length }}{% endfor %}',
    '{% for i in range(100000) %}{{ word | upper | first }}{% endfor %}',
    "{% for i in range(100000) %}{{ 'b' in word }}{% endfor %}",
    "{% for i in range(100000) %}{{ word.count('ab') }}{% endfor %}",
    "{% for i in range(100000) %}{{ word == word ~ '' }}{% endfor %}",
    '{% for i in range(100000) %}{{ list | sort | first }}{% endfor %}',
    '{% for i in range(100000) %}{{ words | unique | first }}{% endfor %}',
    '{% for i in range(100000) %}{{ list | sum }}{% endfor %}',
    '{% for i in range(100000) %}{{ list[1:] | length }}{% endfor %}',
    "{% for i in range(100000) %}{{ list | map('string') | first }}{% endfor %}",
    "{% for i in range(100000) %}{{ maps | groupby('id') | first | length }}{% endfor %}",
    '{% for i in range(100000) %}{{ list | tojson | length }}{% endfor %}',
    '{% for i in range(100000) %}{{ -1 in list }}{% endfor %}',
    '{{ maps | unique | length }}',
    '{{ deep | tojson }}',
    '{{ [deep] | string }}',
    '{{ deep == deeper }}',
    "{{ word.split('') if false else word | list | map('upper') | list | length }}",
    "{{ '%0100000d' % 1 * 1000 }}",
    "{{ '{:99999}'.format('x') * 1000 }}",
    '{{ word ~ word ~ word ~ word ~ word ~ word ~ word ~ word ~ word }}',
    '{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}{{ word }}',
    '{% filter upper %}{% for i in range(100000) %}{{ word }}{% endfor %}{% endfilter %}',
    '{% set x %}{% for i in range(100000) %}{{ word }}{% endfor %}{% endset %}',
    "{% set ns = namespace(c=cycler('a', 'b')) %}{% for i in range(100000) %}{% for j in range(100) %}{{ ns.c.next() }}{% endfor %}{% endfor %}",
  ])('%s', (source) => {
    const { error, ms } = timed(() => renderText(compileTemplate(source), scopeOf(data)));
    expect(error).toBeInstanceOf(TemplateError);
    expect(error).toHaveProperty('code', 'TEMPLATE_LIMIT');
    expect(ms).toBeLessThan(BOUND);
  });

  it('also when a value is small in memory and huge when written out', () => {
    const source = '{{ [[[0] * 1000] * 1000] * 1000 }}';
    const { error, ms } = timed(() => renderValue(compileTemplate(source), scopeOf(data)));
    expect(error).toHaveProperty('code', 'TEMPLATE_LIMIT');
    expect(ms).toBeLessThan(BOUND);
  });
});

describe('TP-06 is over soon whatever it gives', () => {
  it.each([
    '{{ word | striptags | length }}',
    "{{ ('<' * 100000) | striptags | length }}",
    "{{ ('<!--' * 50000) | striptags | length }}",
    "{{ ('&#' * 50000) | striptags | length }}",
    "{{ ('&' * 100000) | escape | length }}",
    '{{ spaces | trim | length }}',
    "{{ (spaces ~ 'x' ~ spaces) | trim | length }}",
    "{{ (spaces ~ 'x' ~ spaces) | wordwrap(10) | length }}",
    '{{ word | wordwrap(10) | length }}',
    "{{ ('a-' * 50000) | wordwrap(10) | length }}",
    "{{ ('-' * 100000) | wordwrap(10) | length }}",
    '{{ word | truncate(10) }}',
    '{{ word | title | length }}',
    '{{ spaces | title | length }}',
    '{{ spaces | urlencode | length }}',
    '{{ word | b64encode | b64decode | length }}',
    '{{ word | int }}',
    '{{ word | float }}',
    "{{ ('9' * 100000) | int }}",
    "{{ ('1_' * 50000) | float }}",
    "{{ word.find('a' * 50000 ~ 'b') }}",
    "{{ word | replace('a' * 50000 ~ 'b', 'x') | length }}",
    "{{ ('b' ~ 'a' * 50000) in word }}",
    "{{ ('a' * 255 ~ 'b') in word }}",
    '{{ word.isalnum() }}',
    '{{ word.splitlines() | length }}',
    "{{ ('\r\n' * 50000).splitlines() | length }}",
    "{{ ('%s' * 50000) % 1 }}",
    "{{ ('%' * 100000) % 1 }}",
    "{{ ('{' * 99999).format(1) }}",
    "{{ ('[' * 100000) | fromjson }}",
    '{{ word.rsplit(none, 5) | length }}',
    '{{ (spaces ~ word).rsplit(none, 5) | length }}',
    "{{ ('a ' * 50000).rsplit(none, 40000) | length }}",
    "{{ ('a ' * 50000).split(none, 40000) | length }}",
    "{{ ('a,' * 50000).split(',', 40000) | length }}",
  ])('%s', (source) => {
    const { error, ms } = timed(() => renderText(compileTemplate(source), scopeOf(data)));
    expect(error === null || error instanceof TemplateError).toBe(true);
    expect(ms).toBeLessThan(BOUND);
  });
});

describe('TP-05 compiling is bounded too', () => {
  it.each([
    `{{ ${'('.repeat(10_000)}1${')'.repeat(10_000)} }}`,
    `{{ ${'['.repeat(10_000)}${']'.repeat(10_000)} }}`,
    `{{ ${'{1:'.repeat(10_000)}1${'}'.repeat(10_000)} }}`,
    `{{ ${'not '.repeat(10_000)}1 }}`,
    `{{ ${'-'.repeat(10_000)}1 }}`,
    `{{ ${'1 if 1 else '.repeat(10_000)}1 }}`,
    `{{ ${'1 if 1 '.repeat(10_000)} }}`,
    `{{ 1${' + 1'.repeat(10_000)} }}`,
    `{{ 1${' and 1'.repeat(10_000)} }}`,
    `{{ 1${' or 1'.repeat(10_000)} }}`,
    `{{ 1${' ~ 1'.repeat(10_000)} }}`,
    `{{ a${'|upper'.repeat(10_000)} }}`,
    `{{ a${' is defined'.repeat(10_000)} }}`,
    `{{ a${'()'.repeat(10_000)} }}`,
    `{{ a${'[a]'.repeat(10_000)} }}`,
    `{{ ${'a['.repeat(10_000)}1${']'.repeat(10_000)} }}`,
    `{{ ${'f('.repeat(10_000)}${')'.repeat(10_000)} }}`,
    '{% if a %}'.repeat(10_000) + '{% endif %}'.repeat(10_000),
    `{% if a %}${'{% elif a %}'.repeat(10_000)}{% endif %}`,
    '{% for a in b %}'.repeat(10_000) + '{% endfor %}'.repeat(10_000),
    '{% filter upper %}'.repeat(10_000) + '{% endfilter %}'.repeat(10_000),
    `{% for ${'('.repeat(10_000)}a${')'.repeat(10_000)} in b %}{% endfor %}`,
    `{% set a${' | upper'.repeat(10_000)} %}x{% endset %}`,
  ])('%#: a nested source of 10,000 parts is refused', (source) => {
    const { error, ms } = timed(() => compileTemplate(source));
    expect(error).toBeInstanceOf(TemplateSyntaxError);
    expect(ms).toBeLessThan(BOUND);
  });

  it.each([
    `{{ a${'.b'.repeat(10_000)} }}`,
    '{{ a }}'.repeat(20_000),
    `{{ a }}${' '.repeat(500_000)}x`,
    `x${' '.repeat(500_000)}{{- a }}`,
    `{{ a -}}${' '.repeat(500_000)}x`,
    `{{ '${'x'.repeat(500_000)}' }}`,
    `${'{# #}'.repeat(100_000)}{{ a }}`,
    `${'{% raw %}{% endraw %}'.repeat(20_000)}{{ a }}`,
    `${'{'.repeat(500_000)}{% if a %}{% endif %}`,
  ])('%#: a long flat source takes moments', (source) => {
    const { error, ms } = timed(() => compileTemplate(source));
    expect(error === null || error instanceof TemplateSyntaxError).toBe(true);
    expect(ms).toBeLessThan(BOUND);
  });

  it.each([
    `{{ ${'('.repeat(90)}1${')'.repeat(90)} }}`,
    `{{ 1${' + 1'.repeat(900)} }}`,
    `{{ 'a'${' ~ "a"'.repeat(900)} }}`,
    `{{ 'a'${' | upper'.repeat(900)} }}`,
  ])('%#: what a person could write is accepted and evaluates', (source) => {
    expect(raised(() => text(source))).toBeNull();
  });
});

describe('the limits are the caller’s', () => {
  it('stops after the given steps', () => {
    const limits = { ...DEFAULT_LIMITS, steps: 100 };
    expect(value('range(10) | sum', {}, limits)).toBe(45);
    expect(raised(() => value('range(1000) | sum', {}, limits))).toHaveProperty('code', 'TEMPLATE_LIMIT');
  });

  it('counts output in bytes', () => {
    const limits = { ...DEFAULT_LIMITS, outputBytes: 10 };
    expect(text('{{ a }}!', { a: 'x'.repeat(9) }, limits)).toHaveLength(10);
    expect(raised(() => text('{{ a }}!', { a: 'x'.repeat(10) }, limits))).toHaveProperty('code', 'TEMPLATE_LIMIT');
    expect(raised(() => text('{{ a }}!', { a: '€€€' }, limits))).toBeNull();
    expect(raised(() => text('{{ a }}!', { a: '€€€é' }, limits))).toHaveProperty('code', 'TEMPLATE_LIMIT');
    expect(raised(() => text('{{ a }}!!', { a: '😀😀' }, limits))).toBeNull();
    expect(raised(() => text('{{ a }}!!!', { a: '😀😀' }, limits))).toHaveProperty('code', 'TEMPLATE_LIMIT');
  });

  it('watches the clock it is given', () => {
    let now = 0;
    const limits = { ...DEFAULT_LIMITS, timeoutMs: 1_000, now: () => (now += 400) };
    expect(value('1 + 1', {}, limits)).toBe(2);
    const loop = '{% for i in range(10000) %}{{ i }}{% endfor %}';
    expect(raised(() => text(loop, {}, limits))).toMatchObject({
      code: 'TEMPLATE_LIMIT',
      message: 'more than 1000 ms in "i"',
    });
  });
});
