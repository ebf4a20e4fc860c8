/** What travels between the python tool and its runner: the request, the raw answer, and how a run can be lost. */
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { FieldProblem } from '../fields.ts';

export interface PythonRequest {
  readonly code: string;
  readonly input: JsonMap;
  readonly context: JsonMap | null;
  /** Alias, module, and the name to take from the module or null. */
  readonly libs: readonly (readonly [string, string, string | null])[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | null;
}

export interface PythonAnswer {
  /** JSON text of the runner; empty when it ended without an answer. */
  readonly body: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly exit: number | null;
  readonly signal: number | null;
  /** Why the run could not be started, or null. */
  readonly lost: string | null;
}

/** The process of a run ended without saying how; the try may be repeated only by a rule. */
export class RunnerLost extends Error {
  override readonly name = 'RunnerLost';
}

/** A start error of an interpreter as something an operator can act on. */
export function interpreterMissing(bin: string, error: unknown): FieldProblem {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  return new FieldProblem(
    `the Python interpreter '${bin}' cannot be started (${code}): install Python 3 (for example ` +
      `'apt-get install python3', 'brew install python' or python.org) or set SVC_PYTHON_BIN to its path`,
  );
}

export type RunnerReport =
  | { readonly kind: 'value'; readonly value: Json }
  | { readonly kind: 'none' }
  | {
      readonly kind: 'error';
      readonly classes: readonly string[];
      readonly message: string;
      readonly traceback: string;
      readonly phase: string;
    };

/** Reads a runner's answer; null when it is not one, which a task can bring about by writing to its descriptor. */
export function readReport(body: string): RunnerReport | null {
  const report = parsed(body);
  if (!isMap(report)) return null;
  if (Object.hasOwn(report, 'value')) return { kind: 'value', value: report['value'] ?? null };
  if (report['none'] === true) return { kind: 'none' };
  const error = report['error'];
  if (!isMap(error) || !Array.isArray(error['classes'])) return null;
  return {
    kind: 'error',
    classes: error['classes'].map(String),
    message: String(error['message'] ?? ''),
    traceback: String(error['traceback'] ?? ''),
    phase: String(error['phase'] ?? ''),
  };
}

function parsed(body: string): Json {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
