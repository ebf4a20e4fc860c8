/** An HTTP answer as the source of a transfer: one exchange whose JSON holds a list of maps. */
import { isMap, type JsonMap } from '../../../machines/json.ts';
import { valueAt } from '../../../machines/playbook/summary.ts';
import { failure, ToolRefusal } from '../errors.ts';
import { textOf } from '../fields.ts';
import type { TokenSource } from '../http/authorization.ts';
import { authorize, decodeText, refusedStatus } from '../http/http.ts';
import { readMessage } from '../http/message.ts';
import type { Outbound } from '../http/outbound.ts';
import { parseJson } from '../json-text.ts';
import type { ToolCall } from '../tool.ts';
import type { RowSource } from './rows.ts';

export interface HttpSide {
  readonly outbound: Outbound;
  readonly tokens: TokenSource;
  readonly version: string;
}

/** `call` carries the credential of this side. Throws ToolRefusal, FieldProblem and what the outbound client throws. */
export async function httpSource(
  side: HttpSide,
  fields: JsonMap,
  call: ToolCall,
  signal: AbortSignal,
): Promise<RowSource> {
  const message = readMessage(fields);
  const { headers } = await authorize({ ...call, kind: 'http' }, message.url, side.tokens, signal);
  const answer = await side.outbound.send({
    ...message,
    headers: {
      'user-agent': `callboard/${side.version}`,
      accept: 'application/json, */*',
      'accept-encoding': 'gzip, deflate, br',
      ...headers,
      ...message.headers,
    },
    secretHeaders: Object.keys(headers),
    followRedirects: true,
    verifySsl: true,
    signal,
  });
  if (answer.status < 200 || answer.status > 299) throw new ToolRefusal(refusedStatus(message, answer));
  const rows = rowsIn(decodeText(answer), textOf(fields, 'data_path')?.trim() ?? '');
  let at = 0;
  return {
    async next(count) {
      const piece = rows.slice(at, at + count);
      at += piece.length;
      return piece;
    },
    async [Symbol.asyncDispose]() {},
  };
}

function rowsIn(text: string, path: string): readonly JsonMap[] {
  let body: unknown;
  try {
    body = parseJson(text);
  } catch {
    throw new ToolRefusal(failure('parse', 'SOURCE_PARSE', 'the answer of the source is no JSON'));
  }
  const found = path === '' ? body : valueAt(isMap(body) || Array.isArray(body) ? body : null, path);
  const list = Array.isArray(found) ? found : isMap(found) && path !== '' ? [found] : null;
  if (list === null || !list.every(isMap)) {
    const where = path === '' ? 'the answer of the source' : `'${path}' in the answer of the source`;
    throw new ToolRefusal(failure('schema', 'SOURCE_ROWS', `${where} is no list of maps`));
  }
  return list;
}
