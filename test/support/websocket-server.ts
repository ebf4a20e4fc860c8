/** A WebSocket server as small as a test needs it (RFC 6455): it takes text from its clients and closes when they do. */
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export interface WebSocketServer {
  readonly url: string;
  /** Texts of all clients, as they came. */
  readonly texts: readonly string[];
  /** Cuts all connections without a word. */
  cut(): void;
  close(): Promise<void>;
}

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const TEXT = 1;
const CLOSE = 8;

export async function startWebSocketServer(): Promise<WebSocketServer> {
  const texts: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((_, response) => response.writeHead(426).end());
  server.on('upgrade', (request, socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    const accept = createHash('sha1').update(`${request.headers['sec-websocket-key']}${GUID}`).digest('base64');
    const head = ['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade'];
    socket.write([...head, `Sec-WebSocket-Accept: ${accept}`, '', ''].join('\r\n'));
    let rest = Buffer.alloc(0);
    let message = '';
    socket.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk]);
      for (let frame = readFrame(rest); frame !== null; frame = readFrame(rest)) {
        rest = rest.subarray(frame.size);
        if (frame.code === CLOSE) {
          socket.end(Buffer.from([0x80 | CLOSE, 0]));
          return;
        }
        if (frame.code > TEXT) continue;
        message += frame.text;
        if (!frame.isLast) continue;
        texts.push(message);
        message = '';
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    // A server that listens on TCP has an address with a port.
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    texts,
    cut,
    close: () =>
      new Promise((resolve) => {
        cut();
        server.close(() => resolve());
      }),
  };
}

/** The first frame, when all of it is there. Clients mask what they send. */
function readFrame(bytes: Buffer): { code: number; isLast: boolean; text: string; size: number } | null {
  if (bytes.length < 2) return null;
  const [first = 0, second = 0] = bytes;
  const short = second & 0x7f;
  const wide = short === 126 ? 2 : short === 127 ? 8 : 0;
  const begin = 2 + wide + 4;
  if (bytes.length < begin) return null;
  if ((second & 0x80) === 0) throw new Error('a client has to mask its frames');
  const length = wide === 0 ? short : wide === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  if (bytes.length < begin + length) return null;
  const mask = bytes.subarray(begin - 4, begin);
  const body = Buffer.from(bytes.subarray(begin, begin + length));
  for (let index = 0; index < body.length; index += 1) body[index] = (body[index] ?? 0) ^ (mask[index % 4] ?? 0);
  return { code: first & 0x0f, isLast: (first & 0x80) !== 0, text: body.toString('utf8'), size: begin + length };
}
