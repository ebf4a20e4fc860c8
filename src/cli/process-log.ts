/** The log of a whole process, with what its configuration had to say, and what happens in it while nobody looks. */
import type { Config } from '../config.ts';
import { createLog, type Log, type LogSink } from '../log.ts';
import { surviveStrays } from './strays.ts';

/** Lines go to stdout, unless the process prints results there. */
export function processLog(config: Config, component: string, sink: LogSink = process.stdout): Log {
  const log = createLog({ level: config.logLevel, format: config.logFormat, component, sink });
  surviveStrays(log);
  for (const warning of config.warnings) log.warn('A setting is unknown', { warning });
  return log;
}
