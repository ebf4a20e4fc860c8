/**
 * Takes finished spans to a collector (api 7.3) and never makes anybody wait: a bounded queue, one request at a time, and
 * what does not fit or is not taken is dropped and counted. Nothing is sent twice: a collector that is away costs spans, not
 * memory.
 */
import { Agent, request } from 'undici';
import { type Attributes, exportBody, type SpanRecord } from './otlp.ts';

export interface ExporterOptions {
  /** Address of the collector; `/v1/traces` is added unless it is there. */
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly resource: Attributes;
  /** Told how many spans were dropped and why. */
  readonly onDropped: (count: number, reason: 'queue_full' | 'export_failed') => void;
}

export interface Exporter {
  add(span: SpanRecord): void;
  /** Sends what is left, for two seconds at most. Idempotent. */
  close(): Promise<void>;
}

export const QUEUE_MAX = 2_048;
const BATCH_MAX = 512;
const SEND_AFTER_MS = 1_000;
const ANSWER_WITHIN_MS = 5_000;
const CLOSE_WITHIN_MS = 2_000;

export function createExporter(options: ExporterOptions): Exporter {
  const { headers, resource, onDropped } = options;
  const url = tracesUrl(options.endpoint);
  const agent = new Agent({ connections: 1, keepAliveTimeout: 10_000, connect: { timeout: 3_000 } });
  const leaving = new AbortController();
  let queue: SpanRecord[] = [];
  let sending: Promise<void> | null = null;
  let timer: NodeJS.Timeout | null = null;
  let closing: Promise<void> | null = null;

  function wake(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    sending ??= sendAll().finally(() => {
      sending = null;
    });
  }

  async function sendAll(): Promise<void> {
    while (queue.length > 0) {
      const batch = queue.slice(0, BATCH_MAX);
      queue = queue.slice(BATCH_MAX);
      if (!(await send(batch))) onDropped(batch.length, 'export_failed');
    }
  }

  async function send(batch: readonly SpanRecord[]): Promise<boolean> {
    try {
      const { statusCode, body } = await request(url, {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(exportBody(resource, batch)),
        signal: AbortSignal.any([leaving.signal, AbortSignal.timeout(ANSWER_WITHIN_MS)]),
        dispatcher: agent,
      });
      await body.dump();
      return statusCode >= 200 && statusCode < 300;
    } catch {
      return false;
    }
  }

  async function end(): Promise<void> {
    const limit = setTimeout(() => leaving.abort(), CLOSE_WITHIN_MS);
    wake();
    await sending;
    clearTimeout(limit);
    await agent.destroy();
  }

  return {
    add(span) {
      if (closing !== null || queue.length >= QUEUE_MAX) return onDropped(1, 'queue_full');
      queue.push(span);
      if (queue.length >= BATCH_MAX) return wake();
      // A quiet process is not kept alive, nor woken, by spans.
      timer ??= setTimeout(wake, SEND_AFTER_MS).unref();
    },
    close() {
      closing ??= end();
      return closing;
    },
  };
}

function tracesUrl(endpoint: string): string {
  const url = new URL(endpoint);
  if (!url.pathname.endsWith('/v1/traces')) url.pathname = `${url.pathname.replace(/\/$/, '')}/v1/traces`;
  return url.href;
}
