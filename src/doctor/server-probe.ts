/** The two things the helper asks the server itself: whether it is well, and for a sweep. Any answer is an answer. */
import { isMap, type Json } from '../../machines/json.ts';

export interface ProbeAnswer {
  /** HTTP status; null when nobody answered. */
  readonly statusCode: number | null;
  readonly body: Json;
  /** Why nobody answered. */
  readonly note: string | null;
}

export interface ServerProbe {
  health(): Promise<ProbeAnswer>;
  /** Health of the parts behind the server. */
  parts(): Promise<ProbeAnswer>;
  sweep(): Promise<ProbeAnswer>;
}

const WITHIN_MS = 10_000;

export function createServerProbe(url: string, token: string | null): ServerProbe {
  const base = url.replace(/\/$/, '');

  async function ask(method: 'GET' | 'POST', path: string): Promise<ProbeAnswer> {
    try {
      const response = await fetch(`${base}${path}`, {
        method,
        headers: {
          accept: 'application/json',
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          ...(method === 'POST' ? { 'content-type': 'application/json' } : {}),
        },
        ...(method === 'POST' ? { body: '{}' } : {}),
        signal: AbortSignal.timeout(WITHIN_MS),
      });
      return { statusCode: response.status, body: jsonOf(await response.text()), note: null };
    } catch (error) {
      return { statusCode: null, body: null, note: `there is no answer from ${base} (${reasonOf(error)})` };
    }
  }

  return {
    health: () => ask('GET', '/health'),
    parts: () => ask('GET', '/api/health'),
    sweep: () => ask('POST', '/api/admin/command_reaper/sweep'),
  };
}

function jsonOf(text: string): Json {
  try {
    // JSON text is JSON.
    return JSON.parse(text) as Json;
  } catch {
    return text.slice(0, 200);
  }
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error ? error.cause : null;
  if (isMap(cause) && typeof cause['code'] === 'string') return cause['code'];
  if (cause instanceof Error && 'code' in cause) return String(cause.code);
  return error instanceof Error ? error.name : String(error);
}
