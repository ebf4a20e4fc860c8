/** Starting executions over HTTP as a client would, for the benchmarks: one after the other, or many at a time. */
import { Pool } from 'undici';

export interface Load {
  register(content: string): Promise<void>;
  /** Starts one and resolves when its end is durable; milliseconds from request to answer. */
  run(path: string, workload?: Readonly<Record<string, unknown>>): Promise<number>;
  /** Keeps `width` executions under way for `seconds`; how many ended. */
  saturate(path: string, width: number, seconds: number): Promise<{ readonly count: number; readonly seconds: number }>;
  metrics(): Promise<ReadonlyMap<string, number>>;
  close(): Promise<void>;
}

export function createLoad(url: string): Load {
  const pool = new Pool(url, { connections: 256, pipelining: 1 });

  async function post(path: string, body: unknown): Promise<unknown> {
    const answer = await pool.request({
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const json: unknown = await answer.body.json();
    if (answer.statusCode !== 200) throw new Error(`${path}: ${answer.statusCode} ${JSON.stringify(json)}`);
    return json;
  }

  async function run(path: string, workload: Readonly<Record<string, unknown>> = {}): Promise<number> {
    const started = performance.now();
    const answer = await post('/api/execute', { path, workload, wait_ms: 60_000 });
    const status =
      typeof answer === 'object' && answer !== null && 'execution_status' in answer ? answer.execution_status : null;
    if (status !== 'completed')
      throw new Error(`an execution of ${path} ended as ${String(status)}: ${JSON.stringify(answer)}`);
    return performance.now() - started;
  }

  return {
    run,
    async register(content) {
      await post('/api/catalog/register', { content });
    },
    async saturate(path, width, seconds) {
      const started = performance.now();
      const until = started + seconds * 1000;
      let count = 0;
      const lane = async () => {
        while (performance.now() < until) {
          await run(path);
          count += 1;
        }
      };
      await Promise.all(Array.from({ length: width }, lane));
      return { count, seconds: (performance.now() - started) / 1000 };
    },
    async metrics() {
      const answer = await pool.request({ method: 'GET', path: '/metrics' });
      const lines = (await answer.body.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
      return new Map(
        lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
      );
    },
    close: () => pool.close(),
  };
}

/** A chain of noop steps. */
export function chain(path: string, steps: number): string {
  const names = Array.from({ length: steps }, (_, index) => `s${index + 1}`);
  const flow = names.map((name, index) => {
    const next = names[index + 1];
    return `  - step: ${name}\n    tool: { kind: noop }\n${next === undefined ? '' : `    next: { arcs: [{ step: ${next} }] }\n`}`;
  });
  return `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: ${path.replaceAll('/', '_')}, path: ${path} }\nworkflow:\n${flow.join('')}`;
}

export function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN;
}
