/**
 * Executions that a session started through this gateway, followed as long as the session listens at `/events`: what the
 * server streams about them becomes notices. It is asked with the session's own token, so nobody hears of more than they
 * may see. A callback (callbacks.ts) finds its way by the same book.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import type { Log } from '../log.ts';
import type { EventHub } from './event-hub.ts';
import { fieldsOf } from './session-store.ts';
import { createSseReader } from './sse.ts';

export interface StartedRun {
  readonly executionId: number;
  /** `X-Request-Id` of the call that started it. */
  readonly requestId: string;
  readonly sessionKey: string;
  /** Null in `dev`. */
  readonly token: string | null;
}

export interface RunWatch {
  /** Remembers who started it, and follows it when its session listens. */
  started(run: StartedRun): void;
  /** The session that started it, by the id of the request or of the execution. */
  ownerOf(which: { readonly requestId?: string; readonly executionId?: number }): string | null;
  /** The session listens (again): what it started and has not seen the end of is followed. */
  resume(sessionKey: string): void;
  /** Nobody of the session listens any more. */
  pause(sessionKey: string): void;
  close(): Promise<void>;
}

interface Watched {
  readonly run: StartedRun;
  over: AbortController | null;
}

const REMEMBERED_MAX = 10_000;
const SESSIONS_MAX = 2_000;
/** The newest of a session. */
const RUNS_PER_SESSION_MAX = 32;
const SILENCE_MAX_MS = 45_000;
const FRAME_MAX = 4 * 1024 * 1024;
const TRIES = 5;
const AGAIN_MS = 1_000;

export function createRunWatch(serverUrl: string, hub: EventHub, log: Log): RunWatch {
  const base = new URL(serverUrl);
  const prefix = base.pathname.replace(/\/$/, '');
  const pool = new Pool(base.origin, { connections: 256, bodyTimeout: SILENCE_MAX_MS, headersTimeout: 10_000 });
  const byRequest = new Map<string, string>();
  const byExecution = new Map<number, string>();
  /** By session and execution; `over` is null while nobody listens. */
  const runs = new Map<string, Map<number, Watched>>();

  function begin(watched: Watched): void {
    if (watched.over !== null) return;
    const over = new AbortController();
    watched.over = over;
    const { run } = watched;
    void follow(run, over.signal).then((isOver) => {
      if (watched.over === over) watched.over = null;
      if (isOver) runs.get(run.sessionKey)?.delete(run.executionId);
    });
  }

  /** True when there is nothing more to hear. */
  async function follow(run: StartedRun, signal: AbortSignal): Promise<boolean> {
    for (let tries = 0; tries < TRIES && !signal.aborted; tries++) {
      try {
        if (await read(run, signal)) return true;
      } catch (error) {
        if (!signal.aborted) log.debug('An execution cannot be followed now', { execution_id: run.executionId, error });
      }
      await pause(AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
    return false;
  }

  /** True at the end of the execution, or where there is nothing to be followed. */
  async function read(run: StartedRun, signal: AbortSignal): Promise<boolean> {
    const answer = await pool.request({
      method: 'GET',
      path: `${prefix}/api/executions/${run.executionId}/stream?events=none`,
      headers: {
        accept: 'text/event-stream',
        'x-request-id': run.requestId,
        ...(run.token === null ? {} : { authorization: `Bearer ${run.token}` }),
      },
      signal,
    });
    if (answer.statusCode !== 200) {
      await answer.body.dump();
      return answer.statusCode < 500;
    }
    const frames = createSseReader(FRAME_MAX);
    for await (const chunk of answer.body.setEncoding('utf8')) {
      for (const { event, data } of frames(String(chunk))) {
        if (event === 'status' || event === 'end') tell(run, event, fieldsOf(JSON.parse(data)));
        if (event === 'end') return true;
      }
    }
    return false;
  }

  function tell(run: StartedRun, event: 'status' | 'end', body: Readonly<Record<string, unknown>>): void {
    const { status, current_step: step, progress, progress_detail, result, error } = body;
    const about = { request_id: run.requestId, execution_id: run.executionId, step: step ?? null, status };
    if (event === 'end') {
      const params = { ...about, data: result ?? null, error: error ?? null };
      hub.toSession(run.sessionKey, { method: 'playbook/result', params });
      return;
    }
    hub.toSession(run.sessionKey, { method: 'playbook/state', params: about });
    const params = { ...about, progress: progress ?? 0, progress_detail: progress_detail ?? null };
    hub.toSession(run.sessionKey, { method: 'playbook/progress', params });
  }

  return {
    started(run) {
      remember(byRequest, run.requestId, run.sessionKey, REMEMBERED_MAX);
      remember(byExecution, run.executionId, run.sessionKey, REMEMBERED_MAX);
      const own = runs.get(run.sessionKey) ?? new Map<number, Watched>();
      remember(runs, run.sessionKey, own, SESSIONS_MAX, (gone) => end(gone));
      if (own.has(run.executionId)) return;
      const watched: Watched = { run, over: null };
      remember(own, run.executionId, watched, RUNS_PER_SESSION_MAX, (gone) => gone.over?.abort());
      if (hub.hasStreams(run.sessionKey)) begin(watched);
    },
    ownerOf({ requestId, executionId }) {
      const byId = requestId === undefined ? undefined : byRequest.get(requestId);
      return byId ?? (executionId === undefined ? null : (byExecution.get(executionId) ?? null));
    },
    resume(key) {
      for (const watched of runs.get(key)?.values() ?? []) begin(watched);
    },
    pause(key) {
      end(runs.get(key) ?? new Map());
    },
    async close() {
      for (const own of runs.values()) end(own);
      await pool.destroy();
    },
  };
}

function end(own: ReadonlyMap<number, Watched>): void {
  for (const watched of own.values()) {
    watched.over?.abort();
    watched.over = null;
  }
}

/** Keeps the newest; what was remembered longest ago goes. */
function remember<K, V>(map: Map<K, V>, key: K, value: V, max: number, onGone: (value: V) => void = () => {}): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= max) return;
  for (const [oldest, gone] of map) {
    map.delete(oldest);
    onGone(gone);
    return;
  }
}

const STARTS = /^\/api\/(execute|run\/playbook|executions\/[^/]+\/rerun)$/;

/** Whether a call that is answered well has started an execution. */
export function startsRun(method: string | undefined, path: string): boolean {
  return method === 'POST' && STARTS.test(path.toLowerCase());
}

/** The execution of an answer to a start; null for anything else. */
export function startedIn(text: string): number | null {
  try {
    const id = fieldsOf(JSON.parse(text))['execution_id'];
    return typeof id === 'number' && Number.isSafeInteger(id) ? id : null;
  } catch {
    return null;
  }
}
