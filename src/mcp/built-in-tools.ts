/** Tools that are always there (api 2.14.4): to look at playbooks and executions, and for operators to start and end them. */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import type { Clock } from '../../actors/ports.ts';
import type { EventPageRequest, Services } from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import { explanationToWire } from '../wire/admin.ts';
import { eventToWire } from '../wire/event.ts';
import { statusToWire } from '../wire/execution.ts';
import { integer, map, maybe, text } from '../wire/fields.ts';
import { catalogPath, id } from '../wire/ids.ts';
import { jsonSchemaOf } from '../wire/json-schema.ts';
import { problemsOf } from '../wire/sentences.ts';
import { startToWire } from '../wire/start.ts';
import { RPC, RpcError } from './message.ts';
import { type ToolCaller, toolResult } from './tool.ts';
import type { OwnTool } from './toolbox.ts';

export interface BuiltInParts {
  readonly services: Pick<Services, 'catalog' | 'executions' | 'executionAccess' | 'reads' | 'explanations'>;
  readonly clock: Clock;
}

const EVENTS_PAGE = 100;
const EVENTS_CHARS_MAX = 262_144;
const PLAYBOOKS_MAX = 1_000;
const oneExecution = v.object({ execution_id: id });

/** In the order they are listed. */
export function createBuiltInTools({ services, clock }: BuiltInParts): readonly OwnTool[] {
  const { catalog, executions, executionAccess, reads, explanations } = services;

  async function rowOf(executionId: number) {
    await executionAccess.check(executionId, 'view');
    const row = await reads.execution(executionId);
    if (row === null) throw new DomainError('not_found', `Execution ${executionId} not found`);
    return row;
  }

  return [
    builtIn({
      name: 'callboard_list_playbooks',
      title: 'List playbooks',
      description: 'The playbooks and agents of the catalog by path: what can be started, and what it is for.',
      input: v.object({
        q: maybe(text(256)),
        after_path: maybe(text(255)),
        limit: maybe(integer(1, PLAYBOOKS_MAX)),
      }),
      async call({ q, after_path: afterPath, limit }) {
        const rows = await catalog.list({
          kinds: ['playbook', 'agent'],
          versions: 'latest',
          includeArchived: false,
          includeContent: false,
          order: 'path',
          limit: limit ?? 200,
          ...(q == null || q === '' ? {} : { q }),
          ...(afterPath == null ? {} : { afterPath }),
        });
        const playbooks = rows.map(({ path, version, kind, name, description }) => ({
          path,
          version,
          kind,
          name,
          description,
        }));
        return { playbooks, count: playbooks.length };
      },
    }),
    builtIn({
      name: 'callboard_execution_status',
      title: 'Status of an execution',
      description: 'How far an execution is, and its result or error once it has ended.',
      input: oneExecution,
      async call({ execution_id: executionId }) {
        const row = await rowOf(executionId);
        return statusToWire(row, await executions.insight(row), false, clock.now());
      },
    }),
    builtIn({
      name: 'callboard_execution_events',
      title: 'Events of an execution',
      description: `What happened in an execution, oldest first, ${EVENTS_PAGE} events at a time.`,
      input: v.object({ execution_id: id, since_event_id: maybe(integer(0, Number.MAX_SAFE_INTEGER)) }),
      async call({ execution_id: executionId, since_event_id: since }) {
        const row = await rowOf(executionId);
        const { events } = await reads.events(executionId, pageAfter(since ?? 0, row.lastEventId));
        const page = fitting(events.map((each) => eventToWire(each, row)));
        const hasMore = page.length < events.length || events.length === EVENTS_PAGE;
        const last = events[page.length - 1]?.eventId ?? null;
        return {
          execution_id: executionId,
          status: row.status,
          events: page,
          next_since_event_id: hasMore ? last : null,
        };
      },
    }),
    builtIn({
      name: 'callboard_explain',
      title: 'Why an execution waits',
      description: 'In one sentence what an execution waits for, and whether it is stuck.',
      input: oneExecution,
      async call({ execution_id: executionId }) {
        await executionAccess.check(executionId, 'view');
        return explanationToWire(await explanations.of(executionId));
      },
    }),
    builtIn({
      name: 'callboard_start',
      title: 'Start a playbook',
      description: 'Starts an execution of a playbook or agent and answers at once with its id.',
      input: v.object({ path: catalogPath, workload: maybe(map) }),
      needsOperator: true,
      async call({ path, workload }, { idempotencyKey }) {
        const entry = await catalog.get(path, 'latest');
        const resourceKind = entry?.kind === 'agent' ? 'agent' : 'playbook';
        return startToWire(await executions.start({ path, resourceKind, workload: workload ?? {}, idempotencyKey }));
      },
    }),
    builtIn({
      name: 'callboard_cancel',
      title: 'Cancel an execution',
      description: 'Cancels an execution and everything it started.',
      input: v.object({ execution_id: id, reason: maybe(text(1024, 1)) }),
      needsOperator: true,
      async call({ execution_id: executionId, reason }) {
        await executionAccess.check(executionId, 'execute');
        const receipt = await executions.cancel(executionId, {
          reason: reason ?? 'Cancelled by a tool call',
          cascade: true,
          by: 'api',
        });
        const { status, cancelled, message } = receipt;
        return { status, execution_id: executionId, cancelled_executions: cancelled.map(String), message };
      },
    }),
  ];
}

function builtIn<S extends v.GenericSchema>(definition: {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly input: S;
  readonly needsOperator?: boolean;
  readonly call: (args: v.InferOutput<S>, caller: ToolCaller) => Promise<object>;
}): OwnTool {
  const { name, title, description, input, needsOperator = false, call } = definition;
  return {
    name,
    needsOperator,
    descriptor: {
      name,
      title,
      description,
      inputSchema: jsonSchemaOf(input, 'input'),
      annotations: { readOnlyHint: !needsOperator, destructiveHint: name === 'callboard_cancel', openWorldHint: false },
    },
    async call(args, caller) {
      const parsed = v.safeParse(input, args);
      // The text of an object parses to a map; optional fields that are undefined are gone by then.
      if (parsed.success) return toolResult(JSON.parse(JSON.stringify(await call(parsed.output, caller))) as JsonMap);
      const errors = problemsOf(parsed.issues, 'arguments').map((problem) => problem.sentence);
      throw new RpcError(RPC.params, errors.join('; '), { errors });
    },
  };
}

/** As many as a reader can take in one answer, and one at least. */
function fitting<E extends object>(events: readonly E[]): readonly E[] {
  let size = 0;
  const end = events.findIndex((each) => {
    size += JSON.stringify(each).length;
    return size > EVENTS_CHARS_MAX;
  });
  return end < 0 ? events : events.slice(0, Math.max(1, end));
}

function pageAfter(sinceEventId: number, untilEventId: number): EventPageRequest {
  return {
    page: 1,
    pageSize: EVENTS_PAGE,
    sinceEventId,
    untilEventId,
    types: [],
    statuses: [],
    step: null,
    commandId: null,
    q: null,
    order: 'asc',
  };
}
