/**
 * Rendering on request (api 2.10): what a template would yield with the names the server knows of an execution
 * (language 8.2). Nothing is recorded, and no keychain entry can be read through it.
 */
import { ServerScope } from '../machines/execution/scope.ts';
import { runOf } from '../machines/execution/take-turn.ts';
import type { Json, JsonMap } from '../machines/json.ts';
import { RESERVED_ROOTS } from '../machines/playbook/names.ts';
import { type Compiled, compileWithBudget } from '../machines/playbook/template/budget.ts';
import { TemplateError, TemplateSyntaxError } from '../machines/playbook/template/errors.ts';
import type { Limits } from '../machines/playbook/template/run.ts';
import { MissingPayload, NeedPayload } from '../machines/playbook/values.ts';
import { DomainError } from './errors.ts';
import type { ExecutionActor } from './execution-actor.ts';
import type { Clock, ExecutionRow } from './ports.ts';
import { readingStage } from './reading-stage.ts';
import type { Supervisor } from './supervisor.ts';

export interface RenderRequest {
  readonly executionId: number;
  readonly template: Json;
  /** Names beside those of the execution; reserved ones stay what they are. */
  readonly extra: JsonMap;
  /** A use of an undefined value is an error. */
  readonly strict: boolean;
}

export interface ContextService {
  /** Throws not_found, or validation_error for a template that is none or cannot be rendered. */
  render(request: RenderRequest): Promise<{ readonly rendered: Json; readonly names: readonly string[] }>;
}

export interface ContextParts {
  readonly supervisor: Pick<Supervisor, 'actorOf' | 'fetchPayloads'>;
  readonly reads: { execution(executionId: number): Promise<ExecutionRow | null> };
  readonly clock: Clock;
  readonly limits: { readonly steps: number; readonly outputBytes: number; readonly timeoutMs: number };
}

/** Stored values one rendering may ask for. */
const PAYLOADS_MAX = 256;
/** Roots with a value although no activation is being handled. */
const ALWAYS = ['workload', 'ctx', 'steps', 'args', 'execution_id', 'catalog_id', 'job', 'iter', 'path', 'version'];

export function createContextService({ supervisor, reads, clock, limits }: ContextParts): ContextService {
  return {
    async render({ executionId, template, extra, strict }) {
      const compiled = compiledOf(template);
      const row = await reads.execution(executionId);
      const actor = row === null ? null : await supervisor.actorOf(row);
      if (actor === null) throw new DomainError('not_found', `Execution ${executionId} not found`);
      const stage = readingStage(actor);
      for (let fetched = 0; ; fetched += 1) {
        const now = () => clock.now();
        const timed: Limits = { ...limits, strict, now, until: now() + limits.timeoutMs };
        try {
          const rendered = compiled.render(new ServerScope(stage, null, extra), timed);
          return { rendered, names: namesOf(actor, extra) };
        } catch (error) {
          if (!(error instanceof NeedPayload)) throw refusalOf(error);
          if (fetched >= PAYLOADS_MAX || !(await supervisor.fetchPayloads([error.ref])))
            throw refusal('the template needs more stored values than fit into memory');
        }
      }
    },
  };
}

function compiledOf(template: Json): Compiled {
  try {
    const compiled = compileWithBudget(template);
    if (compiled.roots.has('keychain')) throw refusal('keychain cannot be rendered here');
    return compiled;
  } catch (error) {
    if (!(error instanceof TemplateSyntaxError)) throw error;
    throw refusal(error.message, error.at);
  }
}

/** Root names with a value, the reserved ones first. */
function namesOf({ state, row }: ExecutionActor, extra: JsonMap): readonly string[] {
  const { steps, written } = runOf(state);
  const ended = Object.keys(steps).filter((name) => steps[name]?.value !== null);
  const own = [...Object.keys(written), ...ended, ...Object.keys(row.workload), ...Object.keys(extra)];
  return [...new Set([...ALWAYS, ...own.filter((name) => !RESERVED_ROOTS.has(name))])];
}

function refusalOf(error: unknown): unknown {
  return error instanceof TemplateError || error instanceof MissingPayload ? refusal(error.message) : error;
}

function refusal(problem: string, at: readonly (string | number)[] = []): DomainError {
  const message = `${['body.template', ...at].join('.')}: ${problem}`;
  return new DomainError('validation_error', message, { errors: [message] });
}
