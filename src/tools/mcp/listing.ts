/**
 * Asks a tool server what it offers, for the service itself (api 2.14.2): one session, ten seconds, 64 KiB in all, under
 * the egress rules that hold for tasks. Sentences name neither address nor answer.
 */
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { classifyNetwork } from '../errors.ts';
import { FieldProblem } from '../fields.ts';
import { createEgress, EgressDenied, type EgressOptions } from '../http/egress.ts';
import { BodyTooLarge, createOutbound, RequestRefused } from '../http/outbound.ts';
import { BadAnswer } from './answer.ts';
import { type McpSession, openSession, RpcRefused, StatusRefused } from './session.ts';

export type ToolListing =
  | { readonly ok: true; readonly tools: readonly JsonMap[] }
  | { readonly ok: false; readonly reason: 'denied' | 'timeout' | 'failed'; readonly sentence: string };

export interface ToolLister {
  list(endpoint: string): Promise<ToolListing>;
  close(): Promise<void>;
}

export interface ToolListerOptions extends EgressOptions {
  /** Of the package; tool servers see it. */
  readonly version: string;
  /** For tests of the limit. */
  readonly withinMs?: number;
}

const ANSWER_MAX_BYTES = 65_536;
const WITHIN_MS = 10_000;
const PAGES_MAX = 50;

/** Throws RangeError for an egress rule that cannot be read. */
export function createToolLister(options: ToolListerOptions): ToolLister {
  const outbound = createOutbound(createEgress(options), ANSWER_MAX_BYTES);
  return {
    async list(endpoint) {
      if (!URL.canParse(endpoint)) return failed('The endpoint of the tool server is not a URL');
      const limit = AbortSignal.timeout(options.withinMs ?? WITHIN_MS);
      try {
        const session = await openSession(outbound, {
          endpoint: new URL(endpoint),
          headers: {},
          secretHeaders: {},
          userAgent: `callboard/${options.version}`,
          firstId: 1,
          initialize: {
            protocolVersion: '2025-06-18',
            capabilities: {},
            clientInfo: { name: 'callboard', version: options.version },
          },
          signal: limit,
        });
        try {
          return { ok: true, tools: await readTools(session) };
        } finally {
          await session.end();
        }
      } catch (error) {
        if (limit.aborted) return { ok: false, reason: 'timeout', sentence: 'The tool server did not answer in time' };
        return refusalOf(error);
      }
    },
    close: () => outbound.close(),
  };
}

async function readTools(session: McpSession): Promise<readonly JsonMap[]> {
  const tools: JsonMap[] = [];
  let size = 0;
  let cursor: Json | undefined;
  for (let page = 0; page < PAGES_MAX; page += 1) {
    const said = await session.request('tools/list', cursor === undefined ? {} : { cursor });
    if ('error' in said) throw new RpcRefused(said.error);
    if (!isMap(said.result) || !Array.isArray(said.result['tools'])) throw new BadAnswer('a list of tools has none');
    for (const tool of said.result['tools']) {
      if (!isMap(tool) || typeof tool['name'] !== 'string' || tool['name'] === '') throw new BadAnswer('no tool');
      size += Buffer.byteLength(JSON.stringify(tool));
      if (size > ANSWER_MAX_BYTES) throw new BodyTooLarge('the pages together are too large');
      tools.push(tool);
    }
    cursor = said.result['nextCursor'];
    if (typeof cursor !== 'string' || cursor === '') return tools;
  }
  throw new BodyTooLarge('there are too many pages');
}

function refusalOf(error: unknown): ToolListing {
  for (let each = error, depth = 0; each instanceof Error && depth < 8; each = each.cause, depth += 1) {
    if (each instanceof EgressDenied) {
      return {
        ok: false,
        reason: 'denied',
        sentence: 'The egress policy does not allow the endpoint of the tool server',
      };
    }
    if (each instanceof BodyTooLarge) return failed('The answer of the tool server is larger than 65536 bytes');
    if (each instanceof StatusRefused) return failed(`The tool server answered HTTP ${each.answer.status}`);
    if (each instanceof RpcRefused) return failed(`The tool server refused the request (${each.code})`);
    if (each instanceof BadAnswer || each instanceof SyntaxError) {
      return failed('The answer of the tool server is no list of tools');
    }
    if (each instanceof RequestRefused || each instanceof FieldProblem) {
      return failed('The endpoint of the tool server cannot be asked');
    }
  }
  return failed(`The tool server cannot be reached (${classifyNetwork(error).code})`);
}

function failed(sentence: string): ToolListing {
  return { ok: false, reason: 'failed', sentence };
}
