/** The server that the files share which do not care what else is on it (shared-server.ts starts it). */
import { inject } from 'vitest';
import { callsTo, type Server } from './server.ts';

export function sharedServer(): Server {
  return callsTo(inject('base'));
}
