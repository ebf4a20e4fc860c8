/** `callboard replay`: a recorded log, decided again by this build; the first difference, if there is one. */
import * as v from 'valibot';
import type { Json } from '../../../machines/json.ts';
import { readCatalogDocument } from '../../../machines/playbook/catalog-document.ts';
import type { Playbook } from '../../../machines/playbook/document.ts';
import { CallboardClient } from '../../client/client.ts';
import { readConfig } from '../../config.ts';
import { printable } from '../../log.ts';
import { type LogFile, logFile } from '../../simulate/recorded-log.ts';
import { logEventOf, PayloadMissing, type Redecision, redecide } from '../../simulate/redecide.ts';
import { ENGINE_SETTINGS } from '../../simulate/settings.ts';
import { type Call, type Command, JSON_OPTION, SERVER_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { problemLine } from '../playbook-file.ts';
import { worded } from '../remote.ts';
import { textOfFile, writeTextFile } from '../text-file.ts';
import { shaped } from '../yaml-file.ts';

/** A log, and how to get values it keeps apart. */
interface Recorded {
  readonly log: LogFile;
  payload(ref: string): Promise<Json>;
  close(): Promise<void>;
}

const FETCHES_MAX = 1000;
const PAGE = 500;

export const command: Command = {
  usage: 'EXECUTION|LOG.json [options]',
  description: `Folds a recorded log with this version and decides it again, turn by turn; prints the first row that would come out
differently. EXECUTION is an id on a server; LOG.json is what --save, or callboard simulate --log, has written.

Exit code: 0 the same, 1 different, 2 wrong use, 4 no server.`,
  options: {
    playbook: { type: 'string', value: 'FILE', help: 'decide by this text instead of the recorded one' },
    save: { type: 'string', value: 'FILE.json', help: 'write the log there' },
    ...JSON_OPTION,
    ...SERVER_OPTION,
  },
  words: [1, 1],
  run: async (call) => {
    const [word = ''] = call.words;
    const recorded = /^[1-9][0-9]{0,15}$/.test(word) ? await fromServer(call, Number(word)) : await fromFile(word);
    try {
      const { log } = recorded;
      const playbook = await playbookOf(call, log);
      const { redecision, payloads } = await decideAgain(recorded, playbook);
      const { save } = call.texts;
      if (save !== undefined) {
        const kept = { ...log, payloads: { ...log.payloads, ...Object.fromEntries(payloads) } };
        await writeTextFile(save, `${JSON.stringify(kept, null, 1)}\n`);
      }
      return tell(call, log, redecision);
    } finally {
      await recorded.close();
    }
  },
};

async function decideAgain(recorded: Recorded, playbook: Playbook) {
  const { log } = recorded;
  const rows = log.events.map(logEventOf);
  const identity = { executionId: log.execution_id, catalogId: log.catalog_id, path: log.path, version: log.version };
  const payloads = new Map<string, Json>(Object.entries(log.payloads ?? {}));
  for (let fetches = 0; ; fetches += 1) {
    try {
      return { redecision: redecide(rows, playbook, identity, ENGINE_SETTINGS.limits, payloads), payloads };
    } catch (error) {
      if (!(error instanceof PayloadMissing) || fetches >= FETCHES_MAX) throw error;
      for (const ref of error.refs) payloads.set(ref, await recorded.payload(ref));
    }
  }
}

async function fromFile(file: string): Promise<Recorded> {
  let value: Json;
  try {
    // JSON.parse yields JSON.
    value = JSON.parse(await textOfFile(file)) as Json;
  } catch (error) {
    if (error instanceof SyntaxError) throw new UsageError(`${file} is not JSON (${error.message})`);
    throw error;
  }
  return {
    log: shaped(logFile, value, file),
    payload: async (ref) => {
      throw new UsageError(`${file} does not hold the stored value ${ref}; save it from the server with --save`);
    },
    close: async () => {},
  };
}

async function fromServer(call: Call, executionId: number): Promise<Recorded> {
  const server = call.texts['server'];
  const { worker } = readConfig(server === undefined ? call.env : { ...call.env, SVC_SERVER_URL: server });
  const client = new CallboardClient({ serverUrl: worker.serverUrl, token: worker.cliToken ?? worker.token });
  const ask = <T>(answer: Promise<T>): Promise<T> =>
    answer.catch((error) => Promise.reject(worded(error, worker.serverUrl)));
  try {
    const { path, ...row } = await ask(client.execution(executionId));
    const version = Number(row['version']);
    const entry = await ask(client.catalogGet(path, version));
    const events: Json[] = [];
    for (let since = 0; ; ) {
      const query = { since_event_id: since, page_size: PAGE, order: 'asc', fields: 'all' } as const;
      const page = await ask(client.events(executionId, query));
      // Rows of an answer are JSON.
      events.push(...(page.events as unknown as Json[]));
      const last = page.events.at(-1);
      if (last === undefined || page.events.length < PAGE) break;
      since = last.event_id;
    }
    const { catalog_id, content } = v.parse(v.looseObject({ catalog_id: v.number(), content: v.string() }), entry);
    const value = { execution_id: executionId, catalog_id, path, version, content, events };
    return {
      log: shaped(logFile, value, `execution ${executionId}`),
      payload: (ref) => ask(client.resolveResult(ref)),
      close: () => client.close(),
    };
  } catch (error) {
    await client.close();
    throw error;
  }
}

async function playbookOf(call: Call, log: LogFile): Promise<Playbook> {
  const file = call.texts['playbook'];
  const content = file === undefined ? log.content : await textOfFile(file);
  if (content == null) throw new UsageError('the log does not hold its playbook; name it with --playbook');
  const reading = readCatalogDocument(content, { path: log.path, resourceType: null });
  const label = file ?? log.path;
  for (const problem of reading.ok ? [] : reading.errors) call.terminal.err(problemLine(label, problem, call.terminal));
  const playbook = reading.ok ? reading.document.playbook : null;
  if (playbook === null) throw new UsageError(`${label} is no playbook that passes its checks`);
  return playbook;
}

function tell({ terminal, flags }: Call, log: LogFile, { turns, folded, difference }: Redecision): number {
  if (flags['json']) {
    const cause =
      difference === null ? null : { event_id: difference.cause.eventId, event_type: difference.cause.type };
    const told = difference === null ? null : { ...difference, cause };
    terminal.out(`${JSON.stringify({ events: log.events.length, turns, folded, difference: told }, null, 2)}\n`);
  } else if (difference === null) {
    const rest = folded === 0 ? '' : ` (${folded} could only be folded)`;
    terminal.out(`${turns} turns over ${log.events.length} events: decided as recorded${rest}\n`);
  } else {
    const { cause, recorded, decided, sentences } = difference;
    const at = (recorded ?? decided)?.event_id ?? cause.eventId;
    terminal.out(
      `Event ${at}, decided because of event ${cause.eventId} (${cause.type} ${printable(cause.nodeId)}):\n`,
    );
    for (const sentence of sentences) terminal.out(`  ${printable(sentence)}\n`);
  }
  return difference === null ? EXIT.ok : EXIT.failed;
}
