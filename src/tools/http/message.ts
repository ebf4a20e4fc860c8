/**
 * What an http task says, as a request: URL with its query, headers, body (language 11.1). Pure; authorization and
 * sending come later. Headers written in the task win over those the body or a credential would set.
 */
import { randomBytes } from 'node:crypto';
import { isMap, type Json, type JsonMap } from '../../../machines/json.ts';
import { FieldProblem, fieldOf, jsonOrText, mapOf, requiredText, textOf } from '../fields.ts';

export interface HttpMessage {
  readonly method: string;
  readonly url: URL;
  /** Lower-case names. */
  readonly headers: Record<string, string>;
  readonly body: string | null;
}

const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** Reads the fields of an http task. Throws FieldProblem. */
export function readMessage(fields: JsonMap): HttpMessage {
  const method = (textOf(fields, 'method') ?? 'GET').trim().toUpperCase() || 'GET';
  if (!token.test(method) || method === 'CONNECT') throw new FieldProblem(`field 'method' is not an HTTP method`);
  const url = readUrl(requiredText(fields, 'url', 'endpoint').trim());
  const headers = readHeaders(mapOf(fields, 'headers') ?? {});
  appendQuery(url, fieldOf(fields, 'params'));
  const body = readBody(fields, method, url, headers);
  if (body !== null && body.type !== null) headers['content-type'] ??= body.type;
  return { method, url, headers, body: body?.text ?? null };
}

function readUrl(text: string): URL {
  if (!URL.canParse(text)) throw new FieldProblem(`field 'url' is not an absolute http or https URL`);
  const url = new URL(text);
  url.hash = '';
  return url;
}

function readHeaders(map: JsonMap): Record<string, string> {
  const entries: [string, string][] = [];
  for (const [name, value] of Object.entries(map)) {
    if (value === null) continue;
    const text = jsonOrText(value).trim();
    if (!token.test(name)) throw new FieldProblem(`'${name.slice(0, 60)}' is not a header name`);
    // Everything a header may hold; line ends would let a value add headers of its own.
    if (/[^\t\x20-\x7e\x80-\xff]/.test(text)) throw new FieldProblem(`header '${name}' has a character it cannot hold`);
    entries.push([name.toLowerCase(), text]);
  }
  return Object.fromEntries(entries);
}

/** Null removes an entry, a list repeats its key, a map becomes JSON. */
function pairs(map: JsonMap): [string, string][] {
  return Object.entries(map).flatMap(([key, value]): [string, string][] => {
    if (value === null) return [];
    const items: readonly Json[] = Array.isArray(value) ? value : [value];
    return items.flatMap((item): [string, string][] => (item === null ? [] : [[key, jsonOrText(item)]]));
  });
}

function appendQuery(url: URL, params: Json | undefined): void {
  if (params === undefined || params === '') return;
  if (typeof params === 'string') {
    for (const [key, value] of new URLSearchParams(params)) url.searchParams.append(key, value);
  } else if (isMap(params)) {
    for (const [key, value] of pairs(params)) url.searchParams.append(key, value);
  } else throw new FieldProblem(`field 'params' must be a map`);
}

interface Body {
  readonly text: string;
  readonly type: string | null;
}

function readBody(fields: JsonMap, method: string, url: URL, headers: Record<string, string>): Body | null {
  const written = fieldOf(fields, 'json', 'body', 'payload');
  if (written !== undefined) return plainBody(written, fieldOf(fields, 'json') !== undefined);
  const form = fieldOf(fields, 'form');
  if (form !== undefined && form !== '') return formBody(form);
  const data = fieldOf(fields, 'data');
  if (data === undefined) return null;
  if (isMap(data) && isQueryAndBody(data)) {
    appendQuery(url, data['query'] ?? undefined);
    return data['body'] === undefined || data['body'] === null ? null : typedBody(data['body'], headers);
  }
  if (method === 'GET' || method === 'HEAD') {
    appendQuery(url, data);
    return null;
  }
  return typedBody(data, headers);
}

function isQueryAndBody(data: JsonMap): boolean {
  const keys = Object.keys(data);
  return keys.length > 0 && keys.every((key) => key === 'query' || key === 'body');
}

/** A map, list or number is JSON; a string is sent as it is. */
function plainBody(value: Json, asJson: boolean): Body {
  if (typeof value === 'string')
    return { text: value, type: asJson ? 'application/json' : 'text/plain; charset=utf-8' };
  return { text: JSON.stringify(value), type: 'application/json' };
}

function formBody(form: Json): Body {
  const type = 'application/x-www-form-urlencoded';
  if (typeof form === 'string') return { text: form, type };
  if (!isMap(form)) throw new FieldProblem(`field 'form' must be a map`);
  return { text: new URLSearchParams(pairs(form)).toString(), type };
}

/** `data` of a method with a body: the content type of the task decides its form. */
function typedBody(data: Json, headers: Record<string, string>): Body {
  const type = (headers['content-type'] ?? '').toLowerCase();
  if (!isMap(data)) return plainBody(data, false);
  if (type.startsWith('application/x-www-form-urlencoded')) return formBody(data);
  if (!type.startsWith('multipart/form-data')) return plainBody(data, true);
  const boundary = /boundary="?([^";]+)"?/i.exec(headers['content-type'] ?? '')?.[1] ?? randomBytes(18).toString('hex');
  headers['content-type'] = `multipart/form-data; boundary=${boundary}`;
  const quote = (name: string) => name.replace(/["\r\n]/g, encodeURIComponent);
  const part = ([name, value]: [string, string]) =>
    `--${boundary}\r\ncontent-disposition: form-data; name="${quote(name)}"\r\n\r\n${value}\r\n`;
  return { text: `${pairs(data).map(part).join('')}--${boundary}--\r\n`, type: null };
}
