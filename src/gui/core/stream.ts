/**
 * Server-sent events over fetch, because EventSource cannot send a token. Comes back after a lost connection with the
 * last id it saw; when streams cannot be had at all, the caller is told to poll.
 */
import { address, headersOf, online } from './api.ts';

export interface Frame {
  readonly event: string;
  readonly id: string | null;
  readonly data: unknown;
}

export interface StreamOptions {
  readonly onFrame: (frame: Frame) => void;
  /** `live` while frames can come, `polling` when the caller should look by itself. */
  readonly onState: (state: 'live' | 'polling' | 'ended') => void;
  readonly signal: AbortSignal;
}

const TRY_AGAIN_MS = 3_000;

/** Ends by itself after a frame `end`. */
export async function follow(path: string, options: StreamOptions): Promise<void> {
  let lastId: string | null = null;
  while (!options.signal.aborted) {
    try {
      const headers = headersOf({
        accept: 'text/event-stream',
        ...(lastId === null ? {} : { 'last-event-id': lastId }),
      });
      const response = await fetch(address(path), { headers, signal: options.signal });
      if (!response.ok || response.body === null) throw new Error(String(response.status));
      online.value = true;
      options.onState('live');
      for await (const frame of framesOf(response.body)) {
        lastId = frame.id ?? lastId;
        options.onFrame(frame);
        if (frame.event === 'end') {
          options.onState('ended');
          return;
        }
      }
    } catch {
      if (options.signal.aborted) return;
    }
    options.onState('polling');
    await pause(TRY_AGAIN_MS, options.signal);
  }
}

async function* framesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Frame> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const frame = frameOf(block);
        if (frame !== null) yield frame;
      }
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}

/** Null for comments and empty blocks. */
export function frameOf(block: string): Frame | null {
  let event = 'message';
  let id: string | null = null;
  const data: string[] = [];
  for (const line of block.split('\n')) {
    if (line.startsWith(':')) continue;
    const colon = line.indexOf(':');
    const name = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'event') event = value;
    else if (name === 'id') id = value;
    else if (name === 'data') data.push(value);
  }
  return data.length === 0 ? null : { event, id, data: JSON.parse(data.join('\n')) };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  signal.addEventListener('abort', () => {
    clearTimeout(timer);
    resolve();
  });
  return promise;
}
