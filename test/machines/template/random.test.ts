/** Random templates over random data: whatever is written, only the two template errors come out, and soon. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileCondition, compileTemplate } from '../../../machines/playbook/template/compiled.ts';
import { TemplateError, TemplateSyntaxError } from '../../../machines/playbook/template/errors.ts';
import { evaluateNative, holds, renderText, renderValue } from '../../../machines/playbook/template/render.ts';
import { DEFAULT_LIMITS } from '../../../machines/playbook/template/run.ts';
import { raised, scopeOf } from './scope.ts';

const limits = { ...DEFAULT_LIMITS, steps: 20_000, outputBytes: 100_000 };
const FILTERS =
  'abs attr b64decode b64encode batch capitalize center count d default dictsort e escape filesizeformat first float format fromjson get groupby indent int items join keys last len length list lower map max min reject rejectattr replace reverse round safe select selectattr slice sort split string striptags sum title tojson trim truncate unique upper urlencode values wordcount wordwrap'.split(
    ' ',
  );
const TESTS =
  'boolean defined divisibleby eq equalto even false float ge gt in integer iterable le lower lt mapping ne none number odd sameas sequence string true undefined upper'.split(
    ' ',
  );
const METHODS =
  'capitalize center count endswith find index isalnum isalpha isdigit islower isnumeric isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rjust rsplit rstrip split splitlines startswith strip swapcase title upper zfill copy get items keys values format append constructor'.split(
    ' ',
  );
const OPERATORS = [
  '+',
  '-',
  '*',
  '/',
  '//',
  '%',
  '**',
  '~',
  '==',
  '!=',
  '<',
  '<=',
  '>',
  '>=',
  'in',
  'not in',
  'and',
  'or',
];

const { expression } = fc.letrec<{ expression: string; arguments: string }>((tie) => ({
  arguments: fc.array(tie('expression'), { maxLength: 3 }).map((each) => each.join(', ')),
  expression: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(
      'a',
      'b',
      'c.d',
      'c',
      'e[0]',
      'e',
      'missing',
      'none',
      'true',
      '1',
      '0',
      '-1',
      '2.5',
      '1e3',
      "'x'",
      "''",
      "'a,b'",
      '[]',
      '{}',
      "'%s {}'",
    ),
    fc
      .tuple(tie('expression'), fc.constantFrom(...OPERATORS), tie('expression'))
      .map(([l, o, r]) => `(${l} ${o} ${r})`),
    fc
      .tuple(tie('expression'), fc.constantFrom(...FILTERS), tie('arguments'))
      .map(([s, f, x]) => `(${s}) | ${f}(${x})`),
    fc.tuple(tie('expression'), fc.constantFrom(...FILTERS)).map(([s, f]) => `(${s}) | ${f}`),
    fc
      .tuple(tie('expression'), fc.constantFrom(...TESTS), tie('expression'))
      .map(([s, t, x]) => `(${s}) is ${t}(${x})`),
    fc.tuple(tie('expression'), fc.constantFrom(...TESTS)).map(([s, t]) => `(${s}) is ${t}`),
    fc.tuple(tie('expression'), fc.constantFrom(...METHODS), tie('arguments')).map(([s, m, x]) => `(${s}).${m}(${x})`),
    fc
      .tuple(fc.constantFrom('range', 'dict', 'namespace', 'cycler', 'joiner', 'a'), tie('arguments'))
      .map(([f, x]) => `${f}(${x})`),
    fc.tuple(tie('expression'), tie('expression'), tie('expression')).map(([l, c, r]) => `(${l} if ${c} else ${r})`),
    fc.tuple(tie('expression'), tie('expression'), tie('expression')).map(([l, c, r]) => `(${l})[${c}:${r}]`),
    fc.tuple(tie('expression'), tie('expression')).map(([l, c]) => `(${l})[${c}]`),
    tie('arguments').map((list) => `[${list}]`),
    fc.tuple(tie('expression'), tie('expression')).map(([k, v]) => `{${k}: ${v}}`),
    tie('expression').map((each) => `not ${each}`),
  ),
}));

const statement = fc
  .tuple(expression, expression, fc.constantFrom('x', 'x, y', '(x, y)'))
  .chain(([one, two, target]) =>
    fc.constantFrom(
      `{% for ${target} in ${one} %}{{ x }}{{ loop.index }}{% else %}{{ ${two} }}{% endfor %}`,
      `{% for x in ${one} if ${two} %}{{ x }}{% endfor %}`,
      `{% set ${target.replaceAll(/[()]/g, '')} = ${one} %}{{ x }}{{ ${two} }}`,
      `{% if ${one} %}{% set x = ${two} %}{% endif %}{{ x }}`,
      `{% with x = ${one} %}{{ ${two} }}{% endwith %}`,
      `{% set x %}{{ ${one} }}{% endset %}{{ x }}`,
      `{% filter upper | replace('A', 'b') %}{{ ${one} }}{% endfilter %}`,
      `a {{- ${one} -}} b {{ ${two} }}`,
    ),
  );

const soup = fc
  .array(
    fc.constantFrom(
      '{{',
      '}}',
      '{%',
      '%}',
      '{#',
      '#}',
      '-',
      'if ',
      'for ',
      'in ',
      'set ',
      'endfor',
      'endif',
      'raw',
      'endraw',
      'else',
      'x',
      '.',
      '[',
      ']',
      '(',
      ')',
      '|',
      'upper',
      '"',
      "'",
      '=',
      ',',
      ':',
      '1',
      '~',
      ' is ',
      ' not ',
      '\\',
      '\n',
      '{',
      '}',
      'é',
      '\u2028',
    ),
    { maxLength: 30 },
  )
  .map((parts) => parts.join(''));

const data = fc.record({
  a: fc.jsonValue({ maxDepth: 3 }),
  b: fc.jsonValue({ maxDepth: 2 }),
  c: fc.record({ d: fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer()) }),
  e: fc.array(fc.oneof(fc.integer(), fc.string(), fc.record({ d: fc.integer() }))),
});

function onlyTemplateErrors(evaluate: () => unknown): void {
  const error = raised(evaluate);
  if (error !== null && !(error instanceof TemplateError || error instanceof TemplateSyntaxError)) throw error;
}

describe('a random template', () => {
  it('raises nothing but its own errors', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          expression.map((each) => `{{ ${each} }}`),
          statement,
          soup,
          fc.string(),
        ),
        data,
        (source, values) => {
          onlyTemplateErrors(() => {
            const template = compileTemplate(source);
            const scope = scopeOf(values);
            onlyTemplateErrors(() => renderText(template, scope, limits));
            onlyTemplateErrors(() => renderValue(template, scope, limits));
          });
          onlyTemplateErrors(() => holds(compileCondition(source), scopeOf(values), limits));
        },
      ),
      { numRuns: 3_000 },
    );
  });

  it('yields JSON', () => {
    fc.assert(
      fc.property(expression, data, (source, values) => {
        onlyTemplateErrors(() => {
          const found = renderValue(compileTemplate(`{{ ${source} }}`), scopeOf(values), limits);
          expect(JSON.parse(JSON.stringify(found))).toStrictEqual(withoutNegativeZero(found));
        });
      }),
      { numRuns: 1_500 },
    );
  });

  it('gives the same again and leaves the data alone', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          expression.map((each) => `{{ ${each} }}`),
          statement,
        ),
        data,
        (source, values) => {
          const before = JSON.stringify(values);
          onlyTemplateErrors(() => {
            const template = compileTemplate(source);
            const once = evaluateNative(template, scopeOf(values), limits);
            expect(evaluateNative(template, scopeOf(values), limits)).toEqual(once);
          });
          expect(JSON.stringify(values)).toBe(before);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('asks the scope only for its roots', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          expression.map((each) => `{{ ${each} }}`),
          statement,
        ),
        data,
        (source, values) => {
          onlyTemplateErrors(() => {
            const template = compileTemplate(source);
            const inner = scopeOf(values);
            const asked = new Set<string>();
            const lookup = (name: string) => {
              asked.add(name);
              return inner.lookup(name);
            };
            const scope = { lookup };
            onlyTemplateErrors(() => renderText(template, scope, limits));
            expect(template.roots).toEqual(expect.arrayContaining([...asked]));
          });
        },
      ),
      { numRuns: 1_000 },
    );
  });
});

/** The one JSON value that JSON text cannot tell from another. */
function withoutNegativeZero(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutNegativeZero);
  if (typeof value !== 'object' || value === null) return Object.is(value, -0) ? 0 : value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withoutNegativeZero(each)]));
}
