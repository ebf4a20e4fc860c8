/** A local server in the place of a cloud's secret manager, and tools that were told its address. */
import type { ServerResponse } from 'node:http';
import type { JsonMap } from '../../../machines/json.ts';
import type { ResolvedAuth } from '../../../src/tools/tool.ts';
import { noHost, openTools } from '../harness.ts';
import { type Seen, startServer } from '../http-server.ts';

export const NOW = Date.UTC(2026, 10, 22, 7, 30, 5);
export const KEYS = { access_key_id: 'AKIDEXAMPLE', secret_access_key: 'canary-aws-key', region: 'eu-central-1' };

export type Reply = (seen: Seen, response: ServerResponse, tries: number) => void;

/** One server for everything the three providers ask, and tools that were told its address. */
export async function cloud(reply: Reply) {
  const tries = new Map<string, number>();
  const server = await startServer((seen, response) => {
    const key = `${seen.method} ${seen.path}`;
    tries.set(key, (tries.get(key) ?? 0) + 1);
    reply(seen, response, tries.get(key) ?? 0);
  });
  const { url } = server;
  const harness = openTools({
    secretEndpoints: { aws: url, gcp: url, azureVault: url, azureLogin: url },
    metadataUrl: url,
    now: () => NOW,
    environment: {},
  });
  const concealed: string[] = [];
  return {
    server,
    concealed,
    run: (fields: JsonMap, auth: ResolvedAuth | null, more: { timeoutMs?: number; workload?: JsonMap } = {}) =>
      harness.run('secrets', fields, {
        auth,
        timeoutMs: more.timeoutMs ?? null,
        context: async () => ({ workload: more.workload ?? {} }),
        host: { ...noHost, conceal: (secret) => void concealed.push(secret) },
      }),
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    },
  };
}

export const stored = (type: string, data: JsonMap, hosts?: readonly string[]): ResolvedAuth => ({
  name: 'manager_auth',
  type,
  data,
  ...(hosts === undefined ? {} : { hosts }),
});
export const json = (response: ServerResponse, status: number, body: unknown) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
export const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64');
export const last = <T>(list: readonly T[]): T => {
  const item = list.at(-1);
  if (item === undefined) throw new Error('nothing was seen');
  return item;
};
