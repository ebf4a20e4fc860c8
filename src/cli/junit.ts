/** Results of tests in the form that CI systems read (JUnit XML). */

export interface JunitSuite {
  readonly name: string;
  readonly cases: readonly { readonly name: string; readonly seconds: number; readonly failures: readonly string[] }[];
}

export function junitXml(suites: readonly JunitSuite[]): string {
  const all = suites.flatMap(({ cases }) => cases);
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites ${counts(all)}>`,
    ...suites.flatMap((suite) => [
      `  <testsuite name="${escaped(suite.name)}" ${counts(suite.cases)}>`,
      ...suite.cases.flatMap((each) => caseLines(suite.name, each)),
      '  </testsuite>',
    ]),
    '</testsuites>',
    '',
  ].join('\n');
}

function caseLines(suite: string, { name, seconds, failures }: JunitSuite['cases'][number]): readonly string[] {
  const open = `    <testcase classname="${escaped(suite)}" name="${escaped(name)}" time="${seconds.toFixed(3)}"`;
  if (failures.length === 0) return [`${open}/>`];
  const [first = ''] = failures;
  return [
    `${open}>`,
    `      <failure message="${escaped(first)}">${escaped(failures.join('\n'))}</failure>`,
    '    </testcase>',
  ];
}

function counts(cases: JunitSuite['cases']): string {
  const failed = cases.filter(({ failures }) => failures.length > 0).length;
  const seconds = cases.reduce((sum, each) => sum + each.seconds, 0);
  return `tests="${cases.length}" failures="${failed}" time="${seconds.toFixed(3)}"`;
}

/** Characters that XML cannot hold at all become a space. */
function escaped(text: string): string {
  return text
    .replaceAll(/[^\t\n\r -\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, ' ')
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}
