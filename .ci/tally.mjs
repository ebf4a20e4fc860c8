/**
 * Reads a JSON report of vitest. First line of the output: numbers of passed and failed tests, a file that broke before its first
 * test counting as one failed. Then a line for each failed test, and one for each that passed only when it was tried again.
 */
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

const [, , report] = process.argv;
const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'));
const firstLine = (text) => (text ?? '').split('\n', 1)[0].slice(0, 300);
const broken = testResults.filter(
  (file) => file.status === 'failed' && file.assertionResults.every((each) => each.status !== 'failed'),
);
const tests = testResults.flatMap((file) =>
  file.assertionResults.map((test) => ({ ...test, file: relative(process.cwd(), file.name) })),
);

console.log(numPassedTests, numFailedTests + broken.length);
for (const file of broken) console.log(`failed  ${relative(process.cwd(), file.name)}: ${firstLine(file.message)}`);
for (const test of tests) {
  const place = `${test.file} > ${test.fullName}: ${firstLine(test.failureMessages[0])}`;
  if (test.status === 'failed') console.log(`failed  ${place}`);
  else if (test.status === 'passed' && test.failureMessages.length > 0) console.log(`again   ${place}`);
}
