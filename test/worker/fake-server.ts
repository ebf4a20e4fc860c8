/**
 * A server that speaks the worker exchange and nothing else, over real HTTP, with the faults of a bad day on order: lost
 * answers, refusals, a restart that forgets everybody. It remembers what it was told so that tests can claim about it.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Json, JsonMap } from '../../machines/json.ts';
import type { StopOrderWire } from '../../src/wire/claim.ts';
import type { Command } from '../../src/wire/command.ts';
import type { ExchangeAnswer, ExchangeBody, ReportAnswer, ReportBody } from '../../src/wire/exchange.ts';

export interface FakeServer {
  readonly url: string;
  readonly calls: ExchangeBody[];
  /** Ids of reports in the order in which they were first handled. */
  readonly handled: ReportBody[];
  readonly registrations: JsonMap[];
  readonly gone: string[];
  /** Puts a command on the board. */
  issue(commandId: number, toolConfig: Json, attempt?: number): void;
  stop(order: StopOrderWire): void;
  /** The next exchanges that carry reports (or, with `claims`, grant commands) are handled and their answers lost. */
  loseAnswers(count: number, which: 'reports' | 'grants'): void;
  /** Answers this instead of handling, as long as the function gives something. */
  refuse(refusal: (body: ExchangeBody) => { status: number; body: JsonMap } | null): void;
  verdict(verdict: (report: ReportBody) => ReportAnswer['result'] | null): void;
  forgetEverybody(): void;
  /** Resolves when the condition holds; looked at after every call. */
  when(condition: () => boolean): Promise<void>;
  close(): Promise<void>;
}

interface Waiting {
  readonly body: ExchangeBody;
  answer(): void;
}

export async function startFakeServer(
  onReport: (report: ReportBody, server: FakeServer) => void = () => {},
): Promise<FakeServer> {
  const pending: Command[] = [];
  const grants = new Map<string, Command[]>();
  const answered = new Map<string, ReportAnswer>();
  const known = new Set<string>();
  const watchers = new Set<() => void>();
  const waiting = new Set<Waiting>();
  let stops: StopOrderWire[] = [];
  let lost = { reports: 0, grants: 0 };
  let refusal: (body: ExchangeBody) => { status: number; body: JsonMap } | null = () => null;
  let judge: (report: ReportBody) => ReportAnswer['result'] | null = () => null;

  const changed = () => {
    for (const watcher of watchers) watcher();
  };

  function handleReport(report: ReportBody): ReportAnswer {
    const before = answered.get(report.report_id);
    if (before !== undefined) return { ...before, result: 'duplicate' };
    const result = judge(report) ?? 'accepted';
    const answer: ReportAnswer = {
      report_id: report.report_id,
      command_id: Number(report.command_id),
      attempt: report.attempt,
      result,
      event_ids: [],
      commands_generated: 0,
      execution_status: 'running',
      error: result === 'invalid' ? 'body.reports[0].data: is required' : null,
    };
    if (result === 'deferred' || result === 'invalid') return answer;
    answered.set(report.report_id, answer);
    server.handled.push(report);
    onReport(report, server);
    return answer;
  }

  function grant(body: ExchangeBody): Command[] {
    const { claim } = body;
    if (claim == null || body.status === 'draining') return [];
    const repeated = grants.get(claim.claim_id);
    if (repeated !== undefined && repeated.length > 0) return repeated;
    const commands = pending.splice(0, claim.max ?? 1);
    grants.set(claim.claim_id, commands);
    return commands;
  }

  function respond(body: ExchangeBody, response: ServerResponse, reports: ReportAnswer[]): void {
    const commands = grant(body);
    const stop = stops;
    stops = [];
    const kind = reports.length > 0 ? 'reports' : commands.length > 0 ? 'grants' : null;
    if (kind !== null && lost[kind] > 0) {
      lost = { ...lost, [kind]: lost[kind] - 1 };
      response.destroy();
    } else {
      const answer: ExchangeAnswer = {
        status: 'ok',
        server_time: 'now',
        reports,
        commands,
        stop,
        queue: { pending: pending.length },
      };
      send(response, 200, answer);
    }
    changed();
  }

  function exchange(body: ExchangeBody, response: ServerResponse): void {
    server.calls.push(body);
    const refused = refusal(body);
    if (refused !== null) {
      send(response, refused.status, refused.body);
      return;
    }
    if (!known.has(body.worker_id)) {
      send(response, 404, { detail: { status: 'unknown', name: body.worker_id }, code: 'unknown_worker' });
      return;
    }
    const reports = (body.reports ?? []).map(handleReport);
    const isRepeat = (grants.get(body.claim?.claim_id ?? '')?.length ?? 0) > 0;
    const nothing = reports.length === 0 && pending.length === 0 && stops.length === 0 && !isRepeat;
    if (!nothing || (body.claim?.wait_ms ?? 0) === 0) {
      respond(body, response, reports);
      return;
    }
    const waiter: Waiting = { body, answer: () => respond(body, response, []) };
    waiting.add(waiter);
    response.once('close', () => waiting.delete(waiter));
    changed();
  }

  function wakeOne(): void {
    const [first] = waiting;
    if (first === undefined) return;
    waiting.delete(first);
    first.answer();
  }

  const http = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      switch (request.url) {
        case '/api/worker/exchange':
          // The worker under test is the only caller.
          return exchange(body as unknown as ExchangeBody, response);
        case '/api/worker/pool/register':
          server.registrations.push(body);
          known.add(String(body['name']));
          send(response, 200, {
            status: 'ok',
            name: body['name'] ?? '',
            runtime_id: 901,
            kind: 'worker_pool',
            runtime: {},
            heartbeat_seconds: 2,
            offline_after_seconds: 6,
            server_time: 'now',
          });
          return changed();
        case '/api/worker/pool/deregister':
          server.gone.push(String(body['name']));
          send(response, 200, { status: 'ok', name: body['name'] ?? '', released: 0 });
          return changed();
        default:
          return send(response, 404, { detail: 'Not found', code: 'not_found' });
      }
    });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  // A server that listens on TCP has an address with a port.
  const { port } = http.address() as AddressInfo;

  const server: FakeServer = {
    url: `http://127.0.0.1:${port}`,
    calls: [],
    handled: [],
    registrations: [],
    gone: [],
    issue(commandId, toolConfig, attempt = 1) {
      pending.push(commandWire(commandId, toolConfig, attempt));
      wakeOne();
    },
    stop(order) {
      stops.push(order);
      wakeOne();
    },
    loseAnswers(count, which) {
      lost = { ...lost, [which]: count };
    },
    refuse(next) {
      refusal = next;
    },
    verdict(next) {
      judge = next;
    },
    forgetEverybody() {
      known.clear();
      http.closeAllConnections();
    },
    when(condition) {
      return new Promise((resolve) => {
        const look = () => {
          if (!condition()) return;
          watchers.delete(look);
          resolve();
        };
        watchers.add(look);
        look();
      });
    },
    async close() {
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
  return server;
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<JsonMap> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  // JSON.parse yields JSON, and the worker sends maps.
  return JSON.parse(text === '' ? '{}' : text) as JsonMap;
}

function commandWire(commandId: number, toolConfig: Json, attempt: number): Command {
  const identity = { command_id: commandId, execution_id: 41_007, catalog_id: 2003, step: 'work', attempt };
  return {
    ...identity,
    event_id: 3,
    path: 'demo/work',
    version: 1,
    node_id: 'work',
    node_name: 'work',
    action: 'noop',
    tool_kind: 'noop',
    pool: 'shared',
    status: 'CLAIMED',
    worker_id: 'worker-7',
    lease_seconds: 120,
    timeout_seconds: 60,
    server_time: 'now',
    context: {
      tool_config: toolConfig,
      input: {},
      spec: {},
      render_context: { workload: {}, args: {}, ctx: {}, steps: {} },
      context_ref: null,
      iteration: null,
    },
    meta: {
      ...identity,
      activation: 1,
      tool_kind: 'noop',
      max_attempts: 5,
      iteration_index: null,
      iteration_total: null,
      cursor: null,
      parent_execution_id: null,
      trace: null,
      tracestate: null,
    },
  };
}
