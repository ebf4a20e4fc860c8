/** A collector of traces that keeps what it is sent, and a signal for "there is more". */
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

export interface Collected {
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
  readonly events: readonly { readonly name: string }[];
  readonly status: { readonly code: number };
  readonly service: string;
}

interface Body {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: Collected['attributes'] };
    readonly scopeSpans: readonly { readonly spans: readonly Omit<Collected, 'service'>[] }[];
  }[];
}

export interface Collector {
  readonly url: string;
  readonly spans: Collected[];
  readonly requests: { readonly path: string; readonly headers: IncomingHttpHeaders }[];
  /** Status of the answers from now on. */
  status: number;
  /** Resolves once the spans received so far make it true; rejects after a while with their names. */
  until(isEnough: (spans: readonly Collected[]) => boolean): Promise<void>;
  close(): Promise<void>;
}

const WITHIN_MS = 20_000;

export async function startCollector(): Promise<Collector> {
  const listeners = new Set<() => void>();
  const server = createServer((request, response) => {
    void json(request).then((body) => {
      collector.requests.push({ path: request.url ?? '', headers: request.headers });
      // Written by the exporter under test; what is not there fails the test that looks for it.
      for (const { resource, scopeSpans } of (body as Body).resourceSpans) {
        const service = String(resource.attributes.find(({ key }) => key === 'service.name')?.value['stringValue']);
        for (const { spans } of scopeSpans) collector.spans.push(...spans.map((span) => ({ ...span, service })));
      }
      response.writeHead(collector.status, { 'content-type': 'application/json' }).end('{}');
      for (const listener of listeners) listener();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  // A TCP server's address is an object once it listens.
  const { port } = server.address() as AddressInfo;
  const collector: Collector = {
    url: `http://127.0.0.1:${port}`,
    spans: [],
    requests: [],
    status: 200,
    until: (isEnough) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!isEnough(collector.spans)) return;
          clearTimeout(timer);
          listeners.delete(look);
          resolve();
        };
        const timer = setTimeout(() => {
          listeners.delete(look);
          reject(new Error(`spans so far: ${collector.spans.map(({ name }) => name).join(', ')}`));
        }, WITHIN_MS);
        listeners.add(look);
        look();
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return collector;
}
