/** The operators' doors of the server that `--server` or SVC_SERVER_URL names. */
import { AdminClient } from '../client/admin.ts';
import { readConfig } from '../config.ts';
import type { Call } from './command.ts';
import { worded } from './remote.ts';

/** Throws ConfigError for an address that is none, Unavailable when nobody answers, and Refused when the server says no. */
export async function withAdmin<T>(call: Call, work: (admin: AdminClient) => Promise<T>): Promise<T> {
  const server = call.texts['server'];
  const config = readConfig(server === undefined ? call.env : { ...call.env, SVC_SERVER_URL: server });
  const { serverUrl, token, cliToken } = config.worker;
  const admin = new AdminClient({ serverUrl, token: config.internalToken ?? cliToken ?? token, connections: 1 });
  try {
    return await work(admin).catch((error: unknown) => Promise.reject(worded(error, serverUrl)));
  } finally {
    await admin.close();
  }
}
