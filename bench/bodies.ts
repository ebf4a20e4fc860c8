/**
 * How long others wait while large bodies arrive: 40 of 10 MiB at once, in forms that cost a reader differently, and
 * /api/health asked every 20 ms meanwhile. `node bench/bodies.ts`
 */
import { connect } from 'node:net';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { startStack } from './stack.ts';

const COUNT = Number(process.env['BENCH_WIDTH'] ?? 40);
const BYTES = 10 * 1024 * 1024;
const PROBE_EVERY_MS = 20;

interface Form {
  readonly name: string;
  readonly path: string;
  readonly before: string;
  /** Repeated until the body has its size. */
  readonly unit: string;
  readonly after: string;
}

const batch = '{"execution_id":1,"events":[{"event_type":"report.note","payload":{"data":[';
const FORMS: readonly Form[] = [
  {
    name: 'one text',
    path: '/api/events',
    before: '{"execution_id":1,"event_type":"report.note","payload":{"data":"',
    unit: 'x',
    after: '"}}',
  },
  { name: 'small integers', path: '/api/events/batch', before: batch, unit: '1,', after: '1]}}]}' },
  { name: 'fractions of zeros', path: '/api/events/batch', before: batch, unit: '1.0,', after: '1]}}]}' },
  { name: 'empty lists', path: '/api/events/batch', before: batch, unit: '[],', after: '1]}}]}' },
  {
    name: 'elements of a wrong type',
    path: '/api/events/batch',
    before: '{"execution_id":1,"events":[',
    unit: '0,',
    after: '0]}',
  },
  {
    name: 'rows, stored',
    path: '/api/events',
    before: '{"execution_id":1,"event_type":"report.note","payload":{"data":[',
    unit: '{"id":12345,"name":"some name","ok":true},',
    after: '1]}}',
  },
];

if (isMainThread) await measure();
else await send(workerData as { readonly form: Form; readonly port: number });

async function measure(): Promise<void> {
  const only = process.argv[2];
  for (const form of FORMS.filter((each) => only === undefined || each.name === only)) {
    // A process that is new each time: what the last form left behind is no part of the figure.
    const stack = await startStack({ workers: 0, concurrency: 1 });
    try {
      await waits(stack.url, 500);
      const load = new Worker(new URL(import.meta.url), {
        workerData: { form, port: Number(new URL(stack.url).port) },
      });
      const { promise: answers, resolve, reject } = Promise.withResolvers<Record<string, number>>();
      load.on('message', resolve).on('error', reject);
      const during = await waits(stack.url, null, answers);
      console.log(
        `${COUNT} × 10 MiB of ${form.name} to ${form.path}: ${JSON.stringify(await answers)} in ${during.seconds.toFixed(1)} s;`,
      );
      console.log(
        `  /api/health p50 ${during.p(0.5)} ms, p99 ${during.p(0.99)} ms, worst ${during.p(1)} ms, ${during.lost} unanswered`,
      );
    } finally {
      await stack.stop();
    }
  }
}

/** Asks every 20 ms, whether the last question was answered or not; until `end`, or so often. */
async function waits(url: string, count: number | null, end: Promise<unknown> = new Promise(() => {})) {
  const started = performance.now();
  let ended = false;
  void end.then(
    () => {
      ended = true;
    },
    () => {
      ended = true;
    },
  );
  const asked: Promise<number | null>[] = [];
  while (!ended && (count === null || asked.length < count)) {
    asked.push(once(`${url}/api/health`));
    await new Promise((resolve) => setTimeout(resolve, count === null ? PROBE_EVERY_MS : 1));
  }
  const all = await Promise.all(asked);
  const times = all.filter((each) => each !== null).toSorted((a, b) => a - b);
  return {
    seconds: (performance.now() - started) / 1000,
    lost: all.length - times.length,
    p: (share: number) => Math.round(times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? Number.NaN),
  };
}

async function once(url: string): Promise<number | null> {
  const started = performance.now();
  try {
    const answer = await fetch(url);
    await answer.arrayBuffer();
    return performance.now() - started;
  } catch {
    return null;
  }
}

async function send({ form, port }: { readonly form: Form; readonly port: number }): Promise<void> {
  const times = Math.floor((BYTES - form.before.length - form.after.length) / form.unit.length);
  const body = Buffer.from(form.before + form.unit.repeat(times) + form.after);
  const head = `POST ${form.path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  const statuses = await Promise.all(Array.from({ length: COUNT }, () => status(port, head, body)));
  const counts: Record<string, number> = {};
  for (const each of statuses) counts[each] = (counts[each] ?? 0) + 1;
  parentPort?.postMessage(counts);
}

function status(port: number, head: string, body: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.on('data', (part) => {
      text += String(part).slice(0, 64);
    });
    socket.on('error', (error) => resolve(text.split(' ')[1] ?? error.message));
    socket.on('close', () => resolve(text.split(' ')[1] ?? 'cut'));
    socket.write(head);
    socket.write(body);
  });
}
