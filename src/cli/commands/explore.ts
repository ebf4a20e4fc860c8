/** `callboard explore`: every way through a playbook within bounds, and what on them cannot work. */
import { printable } from '../../log.ts';
import { type Exploration, explore } from '../../simulate/explore.ts';
import { ENGINE_SETTINGS } from '../../simulate/settings.ts';
import { type Call, type Command, JSON_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { problemLine, problemsOf, readPlaybookFile } from '../playbook-file.ts';

const PATHS_MAX = 2_000;
const ROUNDS_MAX = 3;
const ROUTES_SHOWN = 20;

export const command: Command = {
  usage: 'FILE [options]',
  description: `Goes every way through a playbook: each step ends well or fails, each guard that needs data is once true and once
false, each loop has items or none. Reports steps that never run, guards that are never true or never asked, joins whose
branches never meet, and loops that nothing leaves, each with its line.

Exit code: 0 nothing found, 1 something found, 2 wrong use or invalid playbook.`,
  options: {
    paths: { type: 'string', value: 'N', help: `look at so many paths at most (${PATHS_MAX})` },
    rounds: { type: 'string', value: 'N', help: `leave a path where a step comes more often (${ROUNDS_MAX})` },
    ...JSON_OPTION,
  },
  words: [1, 1],
  run: async (call) => {
    const [name = ''] = call.words;
    const file = await readPlaybookFile(name);
    if (!file.parsed.ok) {
      for (const problem of problemsOf(file)) call.terminal.err(problemLine(name, problem, call.terminal));
      return EXIT.usage;
    }
    const bounds = {
      pathsMax: countOption(call, 'paths', PATHS_MAX),
      activationsMax: countOption(call, 'rounds', ROUNDS_MAX),
    };
    const found = explore(file.parsed.playbook, ENGINE_SETTINGS.limits, bounds);
    if (call.flags['json']) call.terminal.out(`${JSON.stringify({ file: name, ...found }, null, 2)}\n`);
    else show(call, name, found);
    return found.findings.length === 0 ? EXIT.ok : EXIT.failed;
  },
};

function countOption(call: Call, name: string, fallback: number): number {
  const text = call.texts[name];
  if (text === undefined) return fallback;
  const count = Number(text);
  if (!Number.isSafeInteger(count) || count < 1) throw new UsageError(`--${name} must be a whole number above 0`);
  return count;
}

function show({ terminal }: Call, file: string, found: Exploration): void {
  for (const { steps, end } of found.routes.slice(0, ROUTES_SHOWN)) {
    terminal.err(`${printable(steps.join(' > '))}  ${end === 'cut' ? 'and so on' : end}\n`);
  }
  if (found.routes.length > ROUTES_SHOWN) terminal.err(`and ${found.routes.length - ROUTES_SHOWN} more ways\n`);
  for (const { line, step, message, code } of found.findings) {
    const words = printable(`Step '${step}': ${message}`);
    terminal.out(`${file}:${line}  ${words}  ${terminal.style('dim', code)}\n`);
  }
  const bounded = found.complete ? '' : ' (there are more; joins and loops are not judged, try --paths)';
  const { paths, ends, cut } = found;
  const left = cut === 0 ? '' : `, ${cut} left in a loop`;
  terminal.err(
    `${paths} ${paths === 1 ? 'path' : 'paths'}${bounded}: ${ends.completed} completed, ${ends.failed} failed${left}\n`,
  );
}
