/**
 * Batch intake over HTTP: how long a 202 takes, and how many events a second are stored and handled. The floor of the
 * same run is a batch without events, which costs everything but the events.
 *
 *   node bench/batch.ts [batches=400] [events=16] [connections=8]
 */
import { startStack } from './stack.ts';

const [batches = 400, events = 16, connections = 8] = process.argv.slice(2).map(Number);
const PLAYBOOK = `apiVersion: callboard/v2
kind: Playbook
metadata: {name: bench, path: bench/batch}
workflow: [{step: start, tool: {kind: noop}}]
`;

interface Accepted {
  readonly request_id: string;
}

const stack = await startStack({ workers: 0, concurrency: 1 });
try {
  await send('POST', '/api/catalog/playbook', { path: 'bench/batch', content: PLAYBOOK });
  const executions: number[] = [];
  for (let index = 0; index < connections; index += 1) {
    const { execution_id: id } = (await send('POST', '/api/execute', { path: 'bench/batch' })) as {
      execution_id: number;
    };
    executions.push(id);
  }
  await measure(Math.min(50, batches), 1);
  const floor = await measure(batches, 0);
  const full = await measure(batches, events);
  report('empty batches', floor);
  report(`${events} events each`, full);
  console.log(`a 202 with ${events} events costs ${(full.p50 / floor.p50).toFixed(2)} times one without`);
  console.log(`${Math.round((batches * events * 1000) / full.handledMs)} events/s stored and handled`);

  async function measure(count: number, size: number) {
    const times: number[] = [];
    const started = performance.now();
    const last: string[] = [];
    await Promise.all(
      executions.map(async (executionId, lane) => {
        for (let index = lane; index < count; index += connections) {
          const sent = performance.now();
          const list = Array.from({ length: size }, (_, n) => ({
            event_type: 'bench.note',
            step: 'start',
            payload: { n },
          }));
          const { request_id: id } = (await send('POST', '/api/events/batch', {
            execution_id: executionId,
            events: list,
          })) as Accepted;
          times.push(performance.now() - sent);
          last[lane] = id;
        }
      }),
    );
    const acceptedMs = performance.now() - started;
    // Batches of an execution are handled in order, so the last one stands for all of its lane.
    await Promise.all(last.map(async (id) => (await fetch(`${stack.url}/api/events/batch/${id}/stream`)).text()));
    times.sort((a, b) => a - b);
    const at = (share: number) => times[Math.min(times.length - 1, Math.floor(times.length * share))] ?? 0;
    return { p50: at(0.5), p99: at(0.99), acceptedMs, handledMs: performance.now() - started };
  }
} finally {
  await stack.stop();
}

function report(
  name: string,
  { p50, p99, acceptedMs, handledMs }: Record<'p50' | 'p99' | 'acceptedMs' | 'handledMs', number>,
) {
  const rate = (ms: number) => Math.round((batches * 1000) / ms);
  console.log(
    `${name}: 202 p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms; ${rate(acceptedMs)} accepted/s, ${rate(handledMs)} handled/s`,
  );
}

async function send(method: string, path: string, body: object): Promise<unknown> {
  const answer = await fetch(`${stack.url}${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}
