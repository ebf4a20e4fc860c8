/**
 * Kind `python` (language 11.3): code in a process of its own. Runs are forked from a warm interpreter; a run that
 * names another interpreter, or sets variables an interpreter reads only at its start, gets a fresh one.
 */
import type { JsonMap } from '../../../machines/json.ts';
import { childEnvironment } from '../child.ts';
import { codeContext, readCode, type ScriptLoader } from '../code.ts';
import { authEnvironment } from '../credentials.ts';
import { spellSeconds, startDeadline } from '../deadline.ts';
import { classifyPython, failure } from '../errors.ts';
import { environmentOf, FieldProblem, fieldOf, mapOf, textOf } from '../fields.ts';
import { checkedDirectory } from '../shell.ts';
import type { Tool, ToolOutcome } from '../tool.ts';
import { type PythonAnswer, type PythonRequest, RunnerLost, readReport } from './protocol.ts';
import { createZygote, runFresh } from './zygote.ts';

export interface PythonOptions {
  readonly bin: string;
  readonly timeoutMs: number;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly scripts: ScriptLoader;
}

/** A python tool; `close` ends the warm interpreter and every run. */
export function createPython(options: PythonOptions): Tool {
  const base = childEnvironment(options.environment);
  const zygote = createZygote(options.bin, base);

  return {
    kind: 'python',
    close: () => zygote.close(),
    async run(call) {
      const { fields } = call;
      const limitMs = call.timeoutMs ?? options.timeoutMs;
      using deadline = startDeadline(limitMs, call.signal);
      const code = await readCode(call, options.scripts, deadline.signal);
      const env = { ...base, ...authEnvironment(call.auth), ...environmentOf(fields) };
      const request: PythonRequest = {
        code,
        input: call.input,
        context: await codeContext(call, code),
        libs: readLibs(fields),
        env,
        cwd: (await checkedDirectory(fields)) ?? null,
      };
      const bin = textOf(fields, 'python') || options.bin;
      const fresh = bin !== options.bin || needsFreshInterpreter(env) || process.platform === 'win32';
      const warnings = fieldOf(fields, 'deps') === undefined ? [] : ["field 'deps' is ignored"];
      let outcome: ToolOutcome;
      try {
        const answer = await (fresh
          ? runFresh(bin, env, request, deadline.signal)
          : zygote.run(request, deadline.signal));
        outcome = readOutcome(answer, deadline.why(), limitMs);
      } catch (error) {
        if (!(error instanceof RunnerLost)) throw error;
        outcome = stopped(deadline.why(), limitMs) ?? failure('unknown', 'PY_LOST', error.message);
      }
      return warnings.length === 0 ? outcome : { ...outcome, warnings };
    },
  };
}

function readOutcome(answer: PythonAnswer, why: 'timeout' | 'cancelled' | null, limitMs: number): ToolOutcome {
  const { stdout, stderr } = answer;
  const log = { stdout, stderr };
  const report = readReport(answer.body);
  if (report === null) {
    const early = stopped(why, limitMs);
    if (early !== null) return { ...early, log };
    return failure('unknown', 'PY_EXIT', describeLoss(answer), {
      log,
      py: { exception: null, traceback: stderr.slice(-4096) },
    });
  }
  if (report.kind === 'value') return { ok: true, data: report.value, log };
  if (report.kind === 'none') return { ok: true, data: { status: 'success', stdout, stderr }, log };
  const exception = report.classes[0] ?? 'Exception';
  const message = report.message === '' ? exception : `${exception}: ${report.message}`;
  const py = { exception, traceback: report.traceback };
  if (exception === 'ResultError') return failure('schema', 'PY_RESULT', report.message, { log, py });
  if (report.phase === 'setup') return failure('config', `PY_${exception}`, message, { log, py });
  return failure(classifyPython(report.classes, message), `PY_${exception}`, message, { log, py });
}

function stopped(why: 'timeout' | 'cancelled' | null, limitMs: number) {
  if (why === 'timeout') return failure('timeout', 'PY_TIMEOUT', `the code timed out after ${spellSeconds(limitMs)}`);
  if (why === 'cancelled') return failure('unknown', 'CANCELLED', 'the code was stopped');
  return null;
}

function describeLoss({ lost, signal, exit, body }: PythonAnswer): string {
  if (lost !== null) return lost;
  if (signal !== null) return `the python process was killed by signal ${signal} before it had a result`;
  if (body !== '') return 'the python process answered with something that is not a result';
  return `the python process ended with exit code ${exit ?? 'unknown'} before it had a result`;
}

/** Variables Python and the dynamic loader read once, when a process starts. */
function needsFreshInterpreter(env: Readonly<Record<string, string>>): boolean {
  return Object.keys(env).some(
    (name) => name.startsWith('PYTHON') || name.startsWith('LD_') || name.startsWith('DYLD_'),
  );
}

/** `libs`: alias to module, or alias to `{from, import}`. */
function readLibs(fields: JsonMap): PythonRequest['libs'] {
  return Object.entries(mapOf(fields, 'libs') ?? {}).map(([alias, target]) => {
    if (typeof target === 'string' && target !== '') return [alias, target, null];
    const parts = typeof target === 'object' && target !== null && !Array.isArray(target) ? (target as JsonMap) : {};
    const [from, name] = [textOf(parts, 'from'), textOf(parts, 'import')];
    if (!from || !name) throw new FieldProblem(`libs '${alias}' must be a module or a map of 'from' and 'import'`);
    return [alias, from, name];
  });
}
