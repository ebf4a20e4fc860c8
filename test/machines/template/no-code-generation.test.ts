/** Templates work in a process that cannot turn strings into code, which is how workers may be started (language 8.12). */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const moduleOf = (name: string): string =>
  JSON.stringify(new URL(`../../../machines/playbook/template/${name}.ts`, import.meta.url).href);
const PROGRAM = `
  import { compileTemplate } from ${moduleOf('compiled')};
  import { renderValue } from ${moduleOf('render')};
  import { compileTree, renderTree } from ${moduleOf('tree')};
  const scope = { lookup: (name) => (name === 'rows' ? [{ id: 1 }, { id: 2 }] : undefined) };
  let generated = 'yes';
  try { new Function('return 1')(); } catch { generated = 'no'; }
  const source = "{{ rows | map(attribute='id') | sum }}";
  const text = '{% for r in rows if r.id > 1 %}{{ loop.index }}:{{ r.id }}{% endfor %}';
  const tree = renderTree(compileTree({ a: [source, text] }), scope);
  console.log(JSON.stringify({ generated, value: renderValue(compileTemplate(source), scope), tree }));
`;

it('renders where code cannot be generated from strings', async () => {
  const run = promisify(execFile);
  const { stdout } = await run(
    process.execPath,
    ['--disallow-code-generation-from-strings', '--input-type=module', '--eval', PROGRAM],
    { cwd: fileURLToPath(new URL('../../..', import.meta.url)) },
  );
  expect(JSON.parse(stdout)).toEqual({ generated: 'no', value: 3, tree: { a: [3, '1:2'] } });
});
