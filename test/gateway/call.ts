/** Requests exactly as written: no address is tidied, no header added, no redirect followed. */
import { type IncomingHttpHeaders, request } from 'node:http';
import { connect } from 'node:net';

export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  /** Read without ceremony: a test says what it expects of it. */
  readonly json: ReturnType<typeof JSON.parse>;
}

export interface Wanted {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | object;
}

export function call(base: string, method: string, path: string, { headers = {}, body }: Wanted = {}): Promise<Reply> {
  const { hostname, port } = new URL(base);
  const text = typeof body === 'object' ? JSON.stringify(body) : body;
  const type = typeof body === 'object' ? { 'content-type': 'application/json' } : {};
  const length = text === undefined ? {} : { 'content-length': String(Buffer.byteLength(text)) };
  return new Promise((resolve, reject) => {
    const sent = request(
      { hostname, port, method, path, headers: { ...type, ...length, ...headers }, agent: false },
      (answer) => {
        const chunks: Buffer[] = [];
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
        answer.on('error', reject);
        answer.on('end', () => {
          const read = Buffer.concat(chunks).toString('utf8');
          const isJson = String(answer.headers['content-type']).startsWith('application/json') && read !== '';
          resolve({
            status: answer.statusCode ?? 0,
            headers: answer.headers,
            text: read,
            json: isJson ? JSON.parse(read) : undefined,
          });
        });
      },
    );
    sent.on('error', reject);
    sent.end(text);
  });
}

/** Bytes on a socket; resolves with what came back when the other side closes. Ours stays open: who has gone gets no answer. */
export function bytes(base: string, text: string): Promise<string> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(text));
    const chunks: Buffer[] = [];
    socket.on('data', (chunk) => chunks.push(chunk));
    socket.on('error', reject);
    socket.on('close', () => resolve(Buffer.concat(chunks).toString('utf8')));
  });
}
