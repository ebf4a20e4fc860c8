/** What can be read by its address (api 2.14.4): playbooks as they were written, executions as they are. */
import { DomainError } from '../../actors/errors.ts';
import type { Clock } from '../../actors/ports.ts';
import type { ExecutionListRequest, Services } from '../../actors/services.ts';
import type { JsonMap } from '../../machines/json.ts';
import { statusToWire } from '../wire/execution.ts';
import { parseId } from '../wire/ids.ts';
import { cursorAfter, readCursor } from './cursor.ts';
import { RPC, RpcError } from './message.ts';

export interface ResourceParts {
  readonly services: Pick<Services, 'catalog' | 'executions' | 'executionAccess' | 'reads'>;
  readonly clock: Clock;
}

export interface Resources {
  /** The newest executions come on the first page, the newest version of each playbook on all. */
  list(cursor: string | null): Promise<JsonMap>;
  templates(): JsonMap;
  /** Throws RpcError for an address that leads nowhere. */
  read(uri: string): Promise<JsonMap>;
}

const PAGE = 500;
const EXECUTIONS_SHOWN = 20;
const PLAYBOOK = 'callboard://playbook/';
const EXECUTION = 'callboard://execution/';
const YAML = 'application/yaml';
const JSON_TYPE = 'application/json';

const NEWEST: ExecutionListRequest = {
  page: 1,
  pageSize: EXECUTIONS_SHOWN,
  beforeExecutionId: null,
  statuses: [],
  path: null,
  catalogId: null,
  kind: null,
  parentExecutionId: null,
  rootExecutionId: null,
  rootsOnly: true,
  startedAfter: null,
  startedBefore: null,
  minDurationSeconds: null,
  labels: [],
  q: null,
  error: null,
  order: '-start_time',
};

export function createResources({ services, clock }: ResourceParts): Resources {
  const { catalog, executions, executionAccess, reads } = services;

  async function newestExecutions(): Promise<readonly JsonMap[]> {
    const { rows } = await reads.executions(NEWEST);
    return rows.map(({ executionId, path, status }) => ({
      uri: `${EXECUTION}${executionId}`,
      name: `execution ${executionId}`,
      description: `${path}, ${status}`,
      mimeType: JSON_TYPE,
    }));
  }

  return {
    async list(cursor) {
      const after = readCursor(cursor);
      const entries = await catalog.list({
        kinds: ['playbook', 'agent'],
        versions: 'latest',
        includeArchived: false,
        includeContent: false,
        order: 'path',
        limit: PAGE,
        ...(after === null ? {} : { afterPath: after }),
      });
      const playbooks = entries.map(({ path, name, description }) => ({
        uri: PLAYBOOK + path,
        name: path,
        title: name,
        ...(description === null ? {} : { description }),
        mimeType: YAML,
      }));
      const last = entries.length === PAGE ? entries.at(-1) : undefined;
      return {
        resources: after === null ? [...playbooks, ...(await newestExecutions())] : playbooks,
        ...(last === undefined ? {} : { nextCursor: cursorAfter(last.path) }),
      };
    },

    templates: () => ({
      resourceTemplates: [
        { uriTemplate: `${PLAYBOOK}{+path}`, name: 'playbook', description: 'The text of a playbook', mimeType: YAML },
        {
          uriTemplate: `${EXECUTION}{execution_id}`,
          name: 'execution',
          description: 'How far an execution is',
          mimeType: JSON_TYPE,
        },
      ],
    }),

    async read(uri) {
      if (uri.startsWith(PLAYBOOK)) {
        const entry = await catalog.get(uri.slice(PLAYBOOK.length), 'latest');
        if (entry === null || !['playbook', 'agent'].includes(entry.kind)) throw unknown(uri);
        return { contents: [{ uri, mimeType: YAML, text: entry.content }] };
      }
      const executionId = uri.startsWith(EXECUTION) ? parseId(uri.slice(EXECUTION.length)) : null;
      if (executionId !== null) await executionAccess.check(executionId, 'view');
      const row = executionId === null ? null : await reads.execution(executionId);
      if (row === null) throw unknown(uri);
      const insight = await executions.insight(row).catch((error: unknown) => {
        throw error instanceof DomainError && error.code === 'not_found' ? unknown(uri) : error;
      });
      const status = statusToWire(row, insight, false, clock.now());
      return { contents: [{ uri, mimeType: JSON_TYPE, text: JSON.stringify(status) }] };
    },
  };
}

function unknown(uri: string): RpcError {
  return new RpcError(RPC.params, 'Unknown resource', { uri: uri.slice(0, 500) });
}
