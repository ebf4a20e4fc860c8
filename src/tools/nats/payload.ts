/**
 * Bytes of a server as JSON and back. Text is stored as it is and everything else as JSON; reading parses JSON, so a
 * text that looks like a number comes back as one. Bytes that are no text are base64.
 */
import { headers as emptyHeaders, type MsgHdrs } from '@nats-io/transport-node';
import type { Json, JsonMap } from '../../../machines/json.ts';
import { FieldProblem, jsonOrText, mapOf, textOf } from '../fields.ts';
import { parseJson } from '../json-text.ts';

export type Encoding = 'auto' | 'json' | 'text' | 'base64';

export function encodingOf(fields: JsonMap): Encoding {
  const encoding = (textOf(fields, 'encoding') ?? 'auto').trim().toLowerCase();
  if (encoding === '' || encoding === 'auto') return 'auto';
  if (encoding === 'json' || encoding === 'base64') return encoding;
  if (encoding === 'text' || encoding === 'utf8' || encoding === 'utf-8') return 'text';
  throw new FieldProblem(`field 'encoding' must be json, text or base64`);
}

/** Throws FieldProblem for base64 that is none. */
export function toBytes(value: Json, encoding: Encoding): Uint8Array {
  if (encoding === 'base64') {
    if (typeof value !== 'string' || !/^[A-Za-z0-9+/_-]*={0,2}$/.test(value.replace(/\s+/g, ''))) {
      throw new FieldProblem('the data is not base64 text');
    }
    return Buffer.from(value, 'base64');
  }
  if (encoding === 'json') return Buffer.from(JSON.stringify(value));
  return Buffer.from(value === null ? 'null' : jsonOrText(value));
}

/** What the bytes say; `asJson` parses where that is possible. */
export function fromBytes(bytes: Uint8Array, encoding: Encoding, asJson: boolean): { data: Json; encoding: string } {
  const text = encoding === 'base64' ? null : decoded(bytes);
  if (text === null) return { data: Buffer.from(bytes).toString('base64'), encoding: 'base64' };
  if (encoding === 'json' || (encoding === 'auto' && asJson)) {
    try {
      return { data: parseJson(text), encoding: 'json' };
    } catch {
      return { data: text, encoding: 'text' };
    }
  }
  return { data: text, encoding: 'text' };
}

/** Null for bytes that are no UTF-8 text or hold a NUL character, which cannot be stored. */
function decoded(bytes: Uint8Array): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  }
}

/** The `headers` field; null removes one, maps and lists travel as JSON. */
export function headersOf(fields: JsonMap): MsgHdrs | undefined {
  const given = Object.entries(mapOf(fields, 'headers') ?? {}).filter(([, value]) => value !== null);
  if (given.length === 0) return undefined;
  const built = emptyHeaders();
  for (const [name, value] of given) {
    const text = jsonOrText(value);
    if (!/^[\x21-\x39\x3b-\x7e]+$/.test(name) || /[\r\n\0]/.test(text)) {
      throw new FieldProblem(`header '${name.slice(0, 60)}' cannot be sent`);
    }
    built.set(name, text);
  }
  return built;
}

/** The object store answers a `put` with the headers as they travel, names to lists, whatever its types say. */
export function headersToJson(headers: MsgHdrs | Readonly<Record<string, readonly string[]>> | undefined): JsonMap {
  if (headers === undefined) return {};
  if (!isBuilt(headers))
    return Object.fromEntries(Object.entries(headers).map(([name, all]) => [name, all.join(', ')]));
  return Object.fromEntries(headers.keys().map((name) => [name, headers.values(name).join(', ')]));
}

function isBuilt(headers: MsgHdrs | Readonly<Record<string, readonly string[]>>): headers is MsgHdrs {
  return typeof headers.keys === 'function';
}
