/**
 * The recovery helper (api 4.11): three tools that look, or ask the server to look, and one object that says what came of it.
 * A tool that cannot run says so in its outcome; it never throws.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import { ApiError } from '../client/errors.ts';
import type { Facts, Thresholds } from './facts.ts';
import type { ServerProbe } from './server-probe.ts';

export type Severity = 'ok' | 'anomaly' | 'repaired' | 'error';

export interface Outcome {
  readonly action: string;
  readonly severity: Severity;
  /** ISO 8601 UTC, of the helper's clock. */
  readonly generated_at: string;
  readonly data: JsonMap;
}

export interface DoctorParts {
  readonly facts: Facts;
  readonly server: ServerProbe;
  /** Whether the database answers, where the helper may ask it; null: the server's word counts. */
  readonly pingDatabase: (() => Promise<void>) | null;
  readonly thresholds: Thresholds;
  readonly now: () => number;
}

export interface Tool {
  readonly name: string;
  readonly description: string;
  readonly input_schema: JsonMap;
  run(thresholds: Thresholds): Promise<Outcome>;
}

const OVERRIDES: JsonMap = {
  type: 'object',
  properties: {
    stale_seconds: { type: 'number', minimum: 0 },
    pending_retry_seconds: { type: 'number', minimum: 0 },
    max_rows: { type: 'integer', minimum: 1, maximum: 10_000 },
  },
};

export function createDoctor(parts: DoctorParts): readonly Tool[] {
  const tool = (
    name: string,
    action: string,
    description: string,
    work: (thresholds: Thresholds) => Promise<Omit<Outcome, 'action' | 'generated_at'>>,
  ): Tool => ({
    name,
    description,
    input_schema: OVERRIDES,
    async run(thresholds) {
      const found = await work(thresholds).catch((error: unknown) => cannotRun(error));
      return { action, severity: found.severity, generated_at: new Date(parts.now()).toISOString(), data: found.data };
    },
  });
  return [
    tool('detect', 'detect', 'Find stuck executions, forgotten commands and violated laws; changes nothing', (given) =>
      detect(parts, given),
    ),
    tool('reachability', 'reachability', 'Tell whether server, database, bus and workers are there', (given) =>
      reachability(parts, given),
    ),
    tool('repair_trigger_reaper', 'repair.trigger_reaper', 'Ask the server to announce forgotten commands now', () =>
      triggerReaper(parts),
    ),
  ];
}

async function detect({ facts }: DoctorParts, thresholds: Thresholds) {
  const stuck = await facts.silentExecutions(thresholds.staleSeconds, thresholds.maxRows);
  const stale = await facts.staleCommands(thresholds);
  const invariants = await facts.invariants();
  const violations = invariants.filter((law) => !law.ok).length;
  const isFine = stuck.length === 0 && stale.length === 0 && violations === 0;
  return {
    severity: isFine ? ('ok' as const) : ('anomaly' as const),
    data: {
      status: isFine ? 'ok' : 'stuck',
      thresholds: {
        stale_seconds: thresholds.staleSeconds,
        pending_retry_seconds: thresholds.pendingRetrySeconds,
      },
      stuck_executions: stuck.map((each) => ({ ...each })),
      stale_commands: stale.map((each) => ({ ...each })),
      invariants: invariants.map((each) => ({ ...each })),
      summary: { stuck_executions: stuck.length, stale_commands: stale.length, violations },
    },
  };
}

async function reachability({ facts, server, pingDatabase }: DoctorParts, thresholds: Thresholds) {
  const [health, behind] = await Promise.all([server.health(), server.parts()]);
  const part = (name: string): boolean => isMap(behind.body) && behind.body[name] === 'ok';
  const isUp = pingDatabase === null ? part('database') : await answers(pingDatabase);
  const workers = isUp ? await facts.workers().catch(unlessRefused) : [];
  const isStale = (age: number): boolean => age > thresholds.staleSeconds;
  const ready = workers.filter((each) => each.status === 'ready' && !isStale(each.heartbeat_age_seconds)).length;
  const isServerUp = health.statusCode === 200;
  const isFine = isUp && ready > 0;
  return {
    severity: isFine && isServerUp ? ('ok' as const) : ('anomaly' as const),
    data: {
      ok: isFine && isServerUp,
      server_health: { status_code: health.statusCode, ok: isServerUp, ...(health.note && { note: health.note }) },
      postgres: { ok: isUp },
      bus: { ok: part('bus') },
      worker_pool: {
        ready_workers: ready,
        non_ready_workers: workers.filter((each) => each.status !== 'ready').length,
        stale_heartbeat_workers: workers.filter(
          (each) => each.status === 'ready' && isStale(each.heartbeat_age_seconds),
        ).length,
      },
    },
  };
}

async function triggerReaper({ server }: DoctorParts) {
  const { statusCode, body, note } = await server.sweep();
  if (statusCode === 200 || statusCode === 202) {
    return { severity: 'repaired' as const, data: { status: 'ok', status_code: statusCode, body } };
  }
  if (statusCode === 404) {
    const sentence = 'the server is too old to be asked; its own sweeps go on';
    return { severity: 'repaired' as const, data: { status: 'noop', status_code: statusCode, note: sentence } };
  }
  const why: JsonMap = note === null ? { body } : { note };
  return { severity: 'error' as const, data: { status: 'error', status_code: statusCode, ...why } };
}

/** No workers where the server cannot tell of them. One that may not be asked tells nothing about them: then the tool cannot run. */
function unlessRefused(error: unknown): readonly [] {
  if (error instanceof ApiError && (error.status === 401 || error.status === 403)) throw error;
  return [];
}

async function answers(ping: () => Promise<void>): Promise<boolean> {
  try {
    await ping();
    return true;
  } catch {
    return false;
  }
}

function cannotRun(error: unknown): { severity: 'error'; data: JsonMap } {
  const note: Json = error instanceof Error ? error.message : String(error);
  return { severity: 'error', data: { status: 'error', note } };
}
