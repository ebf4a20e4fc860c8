/**
 * Reads the environment into one typed value, once, at the start of a process; nothing else in the tree looks at the
 * environment. All problems are reported together, and a mistyped `SVC_` name is a warning with the nearest known one.
 */
import { readFileSync } from 'node:fs';
import { ALL_SETTINGS, SETTINGS, type Table, WORKER_SETTINGS } from './config-table.ts';
import { Misfit, type Setting } from './config-values.ts';

type ValuesOf<T extends Table> = { readonly [K in keyof T]: ReturnType<T[K]['parse']> };

export type WorkerConfig = ValuesOf<typeof WORKER_SETTINGS>;

/** Units stand last in a name. `null` means: not set, and the user of the value has its own rule. */
export type Config = ValuesOf<typeof SETTINGS> & {
  readonly worker: WorkerConfig;
  /** `SVC_SECRET_<NAME>` by whole name: values of provider `env` for keychain entries. */
  readonly secrets: Readonly<Record<string, string>>;
  /** Sentences about names that look like settings and are none; to be logged once. */
  readonly warnings: readonly string[];
};

/** Bad settings, all of them. A process that meets it prints the message and exits with `exitCode`. */
export class ConfigError extends Error {
  readonly problems: readonly string[];
  readonly exitCode = 78;

  constructor(problems: readonly string[]) {
    super(`The configuration cannot be used:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

/** Reads the settings. An empty value counts as not set. Throws one ConfigError that names every problem. */
export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const problems: string[] = [];
  const main = readTable(SETTINGS, env, problems);
  const worker = readTable(WORKER_SETTINGS, env, problems);
  if (problems.length > 0) throw new ConfigError(problems);
  return { ...main, worker, secrets: secretsIn(env), warnings: unknownNames(env) };
}

export type SqlMode = 'off' | 'read' | 'write';

/** Where callers are told apart, an endpoint that shows everything is opened on purpose only. */
export function sqlModeOf({ postgresExecute, authMode }: Pick<Config, 'postgresExecute' | 'authMode'>): SqlMode {
  return postgresExecute ?? (authMode === 'enforce' ? 'off' : 'read');
}

/** Where nobody is told apart, a row about who saw what is not worth a secret that cannot be read. */
export function isAuditRequired({ auditRequired, authMode }: Pick<Config, 'auditRequired' | 'authMode'>): boolean {
  return auditRequired ?? authMode === 'enforce';
}

function readTable<T extends Table>(
  table: T,
  env: Readonly<Record<string, string | undefined>>,
  problems: string[],
): ValuesOf<T> {
  const values: Record<string, unknown> = {};
  for (const [field, row] of Object.entries(table)) {
    try {
      const given = textOf(row, env);
      values[field] = given === '' ? row.fallback : row.parse(given);
    } catch (error) {
      if (!(error instanceof Misfit)) throw error;
      problems.push(`${row.env} ${error.message}`);
    }
  }
  // Every field of the table was parsed by its own row, or a problem was noted and the caller throws.
  return values as ValuesOf<T>;
}

function textOf(row: Setting<unknown>, env: Readonly<Record<string, string | undefined>>): string {
  const direct = (env[row.env] ?? '').trim() || (row.alias === null ? '' : (env[row.alias] ?? '').trim());
  const file = row.secret ? (env[`${row.env}_FILE`] ?? '').trim() : '';
  if (file === '') return direct;
  if (direct !== '') throw new Misfit(`is set twice, also as ${row.env}_FILE`);
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable';
    throw new Misfit(`cannot be read from the file named by ${row.env}_FILE (${code})`);
  }
}

/** Variables whose names follow from what playbooks say: secrets of provider `env`, addresses of tool servers. */
const namedByAuthors = /^SVC_(?:SECRET_\w+|MCP_\w+_ENDPOINT)$/;

function secretsIn(env: Readonly<Record<string, string | undefined>>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(env).flatMap(([name, value]): [string, string][] =>
      name.startsWith('SVC_SECRET_') && value !== undefined ? [[name, value]] : [],
    ),
  );
}

function unknownNames(env: Readonly<Record<string, string | undefined>>): readonly string[] {
  const known = ALL_SETTINGS.flatMap((row) => [
    row.env,
    ...(row.secret ? [`${row.env}_FILE`] : []),
    ...(row.alias === null ? [] : [row.alias]),
  ]);
  return Object.keys(env)
    .filter((each) => each.startsWith('SVC_') && !known.includes(each) && !namedByAuthors.test(each))
    .sort()
    .map((each) => `${each} is not a setting of this version; the nearest name is ${nearest(each, known)}`);
}

function nearest(wanted: string, names: readonly string[]): string {
  const distances = names.map((each) => ({ name: each, distance: editDistance(wanted, each) }));
  return distances.reduce((best, each) => (each.distance < best.distance ? each : best)).name;
}

/** Levenshtein's, one row at a time. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next.push(
        Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)),
      );
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
