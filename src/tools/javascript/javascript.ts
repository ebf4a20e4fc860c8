/**
 * Kind `javascript` (language 11.4): code as the body of an async function, in a node process of its own with a heap
 * limit and without rights to files or processes.
 */
import { isBuiltin } from 'node:module';
import { isMap, type JsonMap } from '../../../machines/json.ts';
import { childEnvironment } from '../child.ts';
import { codeContext, readCode, type ScriptLoader } from '../code.ts';
import { authEnvironment } from '../credentials.ts';
import { spellSeconds, startDeadline } from '../deadline.ts';
import { classifyJavascript, failure } from '../errors.ts';
import { environmentOf, FieldProblem, fieldOf, mapOf } from '../fields.ts';
import type { Tool, ToolOutcome } from '../tool.ts';
import { createProcesses, type JavascriptEnd, type JavascriptRequest } from './process.ts';

export interface JavascriptOptions {
  readonly timeoutMs: number;
  readonly memoryMb: number;
  /** Package names that may be imported besides `node:` built-ins. */
  readonly allowedModules: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly scripts: ScriptLoader;
  /** Processes kept ready after the first run. */
  readonly spares: number;
}

/** A javascript tool; `close` ends every process. */
export function createJavascript(options: JavascriptOptions): Tool {
  const base = childEnvironment(options.environment);
  const processes = createProcesses({ ...options, environment: base });

  return {
    kind: 'javascript',
    close: () => processes.close(),
    async run(call) {
      const limitMs = call.timeoutMs ?? options.timeoutMs;
      using deadline = startDeadline(limitMs, call.signal);
      const code = await readCode(call, options.scripts, deadline.signal);
      const request: JavascriptRequest = {
        code,
        input: call.input,
        context: await codeContext(call, code),
        libs: readLibs(call.fields, options.allowedModules),
        env: { ...base, ...authEnvironment(call.auth), ...environmentOf(call.fields) },
      };
      const end = await processes.run(request, deadline.signal);
      const outcome = readOutcome(end, deadline.why(), limitMs, options.memoryMb);
      return fieldOf(call.fields, 'deps') === undefined
        ? outcome
        : { ...outcome, warnings: ["field 'deps' is ignored"] };
    },
  };
}

function readOutcome(
  end: JavascriptEnd,
  why: 'timeout' | 'cancelled' | null,
  limitMs: number,
  memoryMb: number,
): ToolOutcome {
  const { stdout, stderr } = end;
  const log = { stdout, stderr };
  const report = readReport(end.body);
  if (report === null) {
    if (why === 'timeout')
      return failure('timeout', 'JS_TIMEOUT', `the code timed out after ${spellSeconds(limitMs)}`, { log });
    if (why === 'cancelled') return failure('unknown', 'CANCELLED', 'the code was stopped', { log });
    if (/heap out of memory|heap limit/i.test(stderr))
      return failure('unknown', 'JS_MEMORY', `the code used more than ${memoryMb} MB of heap`, { log });
    return failure('unknown', 'JS_EXIT', describeLoss(end), {
      log,
      js: { exception: null, traceback: stderr.slice(-4096) },
    });
  }
  if (Object.hasOwn(report, 'value')) return { ok: true, data: report['value'] ?? null, log };
  const error = report['error'];
  if (!isMap(error)) return { ok: true, data: { status: 'success', stdout, stderr }, log };
  const name =
    String(error['name'] ?? 'Error')
      .replace(/\W+/g, '_')
      .slice(0, 80) || 'Error';
  const text = String(error['message'] ?? '');
  if (name === 'ResultError') return failure('schema', 'JS_RESULT', text, { log });
  const message = text === '' ? name : `${name}: ${text}`;
  const classes = Array.isArray(error['classes']) ? error['classes'].map(String) : [];
  return failure(classifyJavascript([name, ...classes], message), `JS_${name}`, message, {
    log,
    js: { exception: name, traceback: String(error['traceback'] ?? '') },
  });
}

function describeLoss({ exit, signal, body }: JavascriptEnd): string {
  if (body !== '') return 'the process of the code answered with something that is not a result';
  if (signal !== null) return `the process of the code was killed by ${signal} before it had a result`;
  return `the process of the code ended with exit code ${exit ?? 'unknown'} before it had a result`;
}

/** A runner's answer, or null when it is not one. */
function readReport(body: string): JsonMap | null {
  try {
    const report: unknown = JSON.parse(body);
    if (!isMap(report)) return null;
    const known = Object.hasOwn(report, 'value') || report['none'] === true || isMap(report['error']);
    return known ? report : null;
  } catch {
    return null;
  }
}

/** `libs`: alias to module; a module that is neither built in nor allowed is a problem of the configuration. */
function readLibs(fields: JsonMap, allowed: readonly string[]): [string, string][] {
  return Object.entries(mapOf(fields, 'libs') ?? {}).map(([alias, module]) => {
    if (typeof module !== 'string' || !/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(alias))
      throw new FieldProblem(`libs '${alias}' must name a module`);
    const inPackage = allowed.some((name) => module === name || module.startsWith(`${name}/`));
    if (!isBuiltin(module) && !inPackage)
      throw new FieldProblem(`module '${module}' may not be imported; SVC_JS_ALLOWED_MODULES lists those that may`);
    return [alias, module];
  });
}
