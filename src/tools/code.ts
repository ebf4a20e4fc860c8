/**
 * What the kinds that run code have in common: where the source text comes from (language 11.3, 11.16) and the
 * `context` global, which is built only for code that mentions it.
 */
import { readFile, realpath } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve, sep } from 'node:path';
import { isMap, type JsonMap } from '../../machines/json.ts';
import { failure, ToolRefusal } from './errors.ts';
import { FieldProblem, fieldOf, mapOf, requiredText, textOf } from './fields.ts';
import type { TokenSource } from './http/authorization.ts';
import { authorize } from './http/http.ts';
import type { Outbound } from './http/outbound.ts';
import type { ToolCall } from './tool.ts';

/** Loads the text of a `script` field. Throws FieldProblem, ScriptUnavailable or a network error. */
export type ScriptLoader = (script: JsonMap, call: ToolCall, signal: AbortSignal) => Promise<string>;

/** A server of scripts answered with something else than the script. */
export class ScriptUnavailable extends Error {
  override readonly name = 'ScriptUnavailable';
  readonly status: number;
  constructor(status: number) {
    super(`the script source answered HTTP ${status}`);
    this.status = status;
  }
}

/** Scripts from inline text, files below `folder` (links that lead out are refused) and http. */
export function createScriptLoader(folder: string, outbound: Outbound, tokens: TokenSource): ScriptLoader {
  return async (script, call, signal) => {
    const source = mapOf(script, 'source') ?? {};
    const type = textOf(source, 'type') ?? (source['code'] === undefined ? 'file' : 'inline');
    if (type === 'inline') return requiredText(source, 'code');
    if (type === 'file') return readScript(folder, requiredText(script, 'uri'));
    if (type === 'http') return fetchScript({ outbound, tokens }, source, textOf(script, 'uri') ?? '', call, signal);
    throw new FieldProblem(`script source '${type}' is not supported by this build`);
  };
}

async function readScript(folder: string, uri: string): Promise<string> {
  const name = uri.replace(/^file:\/\//, '');
  const missing = new FieldProblem(`script '${name}' is not a file below the script folder`);
  if (name.includes('\0')) throw missing;
  const root = await realpath(resolve(folder)).catch(() => null);
  const path = root === null ? null : await realpath(isAbsolute(name) ? name : join(root, name)).catch(() => null);
  if (root === null || path === null) throw missing;
  const inside = relative(root, path);
  if (inside === '' || inside === '..' || inside.startsWith(`..${sep}`) || isAbsolute(inside)) throw missing;
  return readFile(path, 'utf8').catch(() => {
    throw missing;
  });
}

/** With the credential of the source, which is not that of the task (language 11.16). */
async function fetchScript(
  { outbound, tokens }: { readonly outbound: Outbound; readonly tokens: TokenSource },
  source: JsonMap,
  uri: string,
  call: ToolCall,
  signal: AbortSignal,
): Promise<string> {
  const endpoint = textOf(source, 'endpoint') ?? '';
  const text = URL.canParse(uri) ? uri : `${endpoint.replace(/\/+$/, '')}/${uri.replace(/^\/+/, '')}`;
  if (!URL.canParse(text)) throw new FieldProblem('the script source has no usable endpoint');
  const url = new URL(text);
  const limit = timeoutOf(source);
  const within = limit === null ? signal : AbortSignal.any([signal, limit]);
  try {
    const auth = fieldOf(source, 'auth') ?? null;
    const known = auth === null || auth === '' ? null : await call.host.credential(auth);
    const { headers } = await authorize({ ...call, kind: 'http', auth: known }, url, tokens, within);
    const answer = await outbound.send({
      url,
      method: (textOf(source, 'method') ?? 'GET').toUpperCase(),
      headers: { accept: '*/*', 'accept-encoding': 'gzip, deflate, br', ...headers },
      secretHeaders: Object.keys(headers),
      body: null,
      followRedirects: true,
      verifySsl: true,
      signal: within,
    });
    if (answer.status < 200 || answer.status > 299) throw new ScriptUnavailable(answer.status);
    return answer.body.toString('utf8');
  } catch (error) {
    if (limit?.aborted !== true || signal.aborted) throw error;
    throw new ToolRefusal(failure('timeout', 'CONN_TIMEOUT', 'the script source did not answer in time'));
  }
}

/** Seconds for the whole exchange; without them the time of the task is the limit. */
function timeoutOf(source: JsonMap): AbortSignal | null {
  const written = textOf(source, 'timeout')?.trim() ?? '';
  if (written === '') return null;
  const seconds = Number(written);
  if (!Number.isFinite(seconds) || seconds <= 0)
    throw new FieldProblem("field 'timeout' of a script source must be a positive number");
  return AbortSignal.timeout(Math.min(seconds * 1000, 2_147_483_647));
}

/** The source of a task: `code`, `code_b64` or `script`, the first that is there. */
export async function readCode(call: ToolCall, load: ScriptLoader, signal: AbortSignal): Promise<string> {
  const { fields } = call;
  const code = textOf(fields, 'code');
  if (code !== undefined && code.trim() !== '') return code;
  const encoded = textOf(fields, 'code_b64', 'code_base64');
  if (encoded !== undefined && encoded !== '') return decodeSource(encoded);
  const script = mapOf(fields, 'script');
  if (script === undefined) throw new FieldProblem(`field 'code' is missing or empty`);
  return load(script, call, signal);
}

function decodeSource(encoded: string): string {
  const compact = encoded.replace(/\s+/g, '');
  if (!/^[A-Za-z0-9+/_-]*={0,2}$/.test(compact)) throw new FieldProblem(`field 'code_b64' is not base64`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(compact, 'base64'));
  } catch {
    throw new FieldProblem(`field 'code_b64' is not UTF-8 text`);
  }
}

/** The `context` global of language 11.3.2, or null when the code never mentions it. */
export async function codeContext(call: ToolCall, code: string): Promise<JsonMap | null> {
  if (!/\bcontext\b/.test(code) || Object.hasOwn(call.input, 'context')) return null;
  const context = await call.context();
  const variables = context['ctx'];
  return {
    ...context,
    args: call.input,
    variables: isMap(variables) ? variables : {},
    execution_id: String(call.executionId),
    step: call.step,
    server_url: call.serverUrl,
  };
}
