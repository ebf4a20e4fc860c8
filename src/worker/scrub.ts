/**
 * Keeps secrets inside the worker (api 8.2): every resolved secret of six or more characters, also in the encodings it
 * may have picked up on the way, becomes `***` in whatever is about to leave. Fields of a credential that are no secret
 * by their nature (a host, a user name) stay readable, or every error of a database would be a row of stars.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { ResolvedAuth } from '../tools/tool.ts';

const LENGTH_MIN = 6;
const MASK = '***';

const OPEN_FIELDS: ReadonlySet<string> = new Set([
  'type',
  'token_type',
  'host',
  'hostname',
  'port',
  'user',
  'username',
  'database',
  'dbname',
  'db_name',
  'db_host',
  'db_port',
  'db_user',
  'db_username',
  'db_database',
  'schema',
  'sslmode',
  'header',
  'scope',
  'scopes',
  'token_url',
  'token_uri',
  'auth_uri',
  'url',
  'base_url',
  'endpoint',
  'nats_url',
  'nats_user',
  'region',
  'project_id',
  'client_id',
  'client_email',
  'grant_type',
]);

export class Scrubber {
  readonly #forms = new Set<string>();
  /** Secrets too short to be looked for inside of texts: only a text that is the secret is hidden. */
  readonly #whole = new Set<string>();
  #pattern: RegExp | null = null;

  /** Remembers the secrets of a credential for the rest of the command. */
  learn(auth: ResolvedAuth): void {
    this.learnFrom(auth.data);
    const { user, username, password } = auth.data;
    const name = username ?? user;
    if (typeof name === 'string' && typeof password === 'string' && password.length >= LENGTH_MIN) {
      this.#remember(`${name}:${password}`);
    }
  }

  learnFrom(data: Json): void {
    if (typeof data === 'string') this.#remember(data);
    else if (Array.isArray(data)) for (const each of data) this.learnFrom(each);
    else if (isMap(data)) {
      for (const [field, value] of Object.entries(data))
        if (!OPEN_FIELDS.has(field.toLowerCase())) this.learnFrom(value);
    }
  }

  /** Remembers one secret of any length. */
  conceal(secret: string): void {
    this.#remember(secret);
    if (secret !== '' && secret.length < LENGTH_MIN) this.#whole.add(secret);
  }

  text(text: string): string {
    if (this.#whole.has(text)) return MASK;
    const pattern = this.#compiled();
    return pattern === null ? text : text.replace(pattern, MASK);
  }

  /** Strings and keys anywhere in the value; the same value where there is nothing to hide. */
  json(value: Json): Json {
    const pattern = this.#compiled();
    return pattern === null && this.#whole.size === 0 ? value : masked(value, (text) => this.text(text));
  }

  map(value: JsonMap): JsonMap {
    const scrubbed = this.json(value);
    return isMap(scrubbed) ? scrubbed : {};
  }

  #remember(secret: string): void {
    if (secret.length < LENGTH_MIN) return;
    for (const form of formsOf(secret)) this.#forms.add(form);
    this.#pattern = null;
  }

  #compiled(): RegExp | null {
    if (this.#forms.size === 0) return null;
    // Longest first: a form that contains another must not be cut in two.
    const forms = [...this.#forms].sort((a, b) => b.length - a.length);
    this.#pattern ??= new RegExp(forms.map(escaped).join('|'), 'g');
    return this.#pattern;
  }
}

function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret, 'utf8');
  const percent = encodeURIComponent(secret.toWellFormed());
  const hex = bytes.toString('hex');
  const base64 = bytes.toString('base64');
  return [
    secret,
    base64,
    base64.replace(/=+$/, ''),
    bytes.toString('base64url'),
    percent,
    percent.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
    percent.replaceAll('%20', '+'),
    hex,
    hex.toUpperCase(),
    JSON.stringify(secret).slice(1, -1),
  ];
}

function masked(value: Json, hide: (text: string) => string): Json {
  if (typeof value === 'string') return hide(value);
  if (Array.isArray(value)) return value.map((each) => masked(each, hide));
  if (!isMap(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [hide(key), masked(member, hide)]));
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}
