/** The recovery helper put together from its settings: over the database where its address is known, else over the API. */
import { AdminClient } from '../client/admin.ts';
import type { Config } from '../config.ts';
import { createApiFacts } from './api-facts.ts';
import { createDoctor, type Tool } from './doctor.ts';
import type { Thresholds } from './facts.ts';
import { createServerProbe } from './server-probe.ts';

export interface RunningDoctor {
  readonly tools: readonly Tool[];
  readonly thresholds: Thresholds;
  close(): Promise<void>;
}

const WITHIN_MS = 10_000;

export type DoctorConfig = Pick<
  Config,
  'doctorUrl' | 'doctorDatabaseUrl' | 'doctorStaleSeconds' | 'doctorMaxRows' | 'pendingRetrySeconds' | 'internalToken'
>;

export async function startDoctor(config: DoctorConfig): Promise<RunningDoctor> {
  const { doctorUrl: serverUrl, doctorDatabaseUrl: databaseUrl, internalToken: token } = config;
  const server = createServerProbe(serverUrl, token);
  const thresholds: Thresholds = {
    staleSeconds: config.doctorStaleSeconds,
    pendingRetrySeconds: config.pendingRetrySeconds,
    maxRows: config.doctorMaxRows,
  };
  if (databaseUrl === null) {
    const admin = new AdminClient({ serverUrl, token, connections: 2, timeoutMs: WITHIN_MS });
    const facts = createApiFacts(admin, Date.now);
    const tools = createDoctor({ facts, server, pingDatabase: null, thresholds, now: Date.now });
    return { tools, thresholds, close: () => admin.close() };
  }
  const { openDiagnosis } = await import('../store/diagnosis.ts');
  const diagnosis = openDiagnosis(databaseUrl);
  const tools = createDoctor({ facts: diagnosis, server, pingDatabase: diagnosis.ping, thresholds, now: Date.now });
  return { tools, thresholds, close: () => diagnosis.close() };
}
