/**
 * Keeps secrets inside the worker (api 8.2): every resolved secret of six or more characters, also in the encodings it
 * may have picked up on the way and in letters of another case, becomes `***` in whatever is about to leave. Fields of a credential that are no secret
 * by their nature (a host, a user name) stay readable, or every error of a database would be a row of stars.
 */
import { isMap, type Json, type JsonMap } from '../../machines/json.ts';
import type { ResolvedAuth } from '../tools/tool.ts';

const LENGTH_MIN = 6;
const MASK = '***';
/** Six bytes of a secret. */
const BASE64_CORE_MIN = 8;

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
  /** Patterns of the forms, with the length of what they stand for. */
  readonly #forms = new Map<string, number>();
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
    for (const form of formsOf(secret)) this.#forms.set(patternOf(form), form.length);
    this.#pattern = null;
  }

  #compiled(): RegExp | null {
    if (this.#forms.size === 0) return null;
    // Longest first: a form that contains another must not be cut in two.
    this.#pattern ??= new RegExp(
      [...this.#forms]
        .sort(([, a], [, b]) => b - a)
        .map(([pattern]) => pattern)
        .join('|'),
      'giu',
    );
    return this.#pattern;
  }
}

function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret, 'utf8');
  const base64 = bytes.toString('base64');
  // Letters that grow with their case (ß, SS) are no case of each other to a pattern.
  const grown = secret.toUpperCase();
  return [
    secret,
    ...(grown.length === secret.length ? [] : [grown]),
    base64,
    base64.replace(/=+$/, ''),
    bytes.toString('base64url'),
    bytes.toString('hex'),
    ...base64Within(bytes),
  ];
}

/**
 * What base64 makes of the secret inside of a longer text: three spellings, by where it begins, without the characters
 * at both ends that depend on its neighbours. Short ones would hide what is no secret.
 */
function base64Within(bytes: Buffer): readonly string[] {
  const spellings: string[] = [];
  for (const before of [0, 1, 2]) {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    const whole = (before + bytes.length) % 3 === 0;
    const core = text.slice(before === 0 ? 0 : before + 1, whole ? undefined : -1);
    if (core.length >= BASE64_CORE_MIN) spellings.push(core, core.replaceAll('+', '-').replaceAll('/', '_'));
  }
  return spellings;
}

function masked(value: Json, hide: (text: string) => string): Json {
  if (typeof value === 'string') return hide(value);
  if (Array.isArray(value)) return value.map((each) => masked(each, hide));
  if (!isMap(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [hide(key), masked(member, hide)]));
}

/**
 * The text with its characters in any of the ways quoting spells them; the pattern is used without regard to case. A
 * secret that went through JSON, a URL, a `repr` and JSON again has as many spellings as there are ways to go, and half
 * of it plain would be as bad as all of it.
 */
function patternOf(text: string): string {
  return [...text.toWellFormed()].map(spellings).join('');
}

/** Quoting that is nested deeper is not looked through; without an end, a text of backslashes would take for ever. */
const BACKSLASH = '(?:\\\\|%(?:25){0,4}5c)';
const SHORT: Readonly<Record<string, string>> = { '\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', '\f': 'f' };
const ENTITIES: Readonly<Record<string, string>> = { '"': 'quot', "'": 'apos', '&': 'amp', '<': 'lt', '>': 'gt' };

function spellings(char: string): string {
  if (/[A-Za-z0-9]/.test(char)) return char;
  if (char === '\\') return `${BACKSLASH}{1,16}`;
  const code = char.codePointAt(0) ?? 0;
  const units = Array.from({ length: char.length }, (_, index) => char.charCodeAt(index));
  const short = SHORT[char];
  const entity = ENTITIES[char];
  const plain = [
    escaped(char),
    // %25 is a percent sign that was encoded itself.
    [...Buffer.from(char, 'utf8')].map((byte) => `%(?:25){0,4}${hexOf(byte, 2)}`).join(''),
    ...(entity === undefined ? [] : [`&(?:amp;){0,4}${entity};`]),
    `&(?:amp;){0,4}#(?:0*${code}|x0*${hexOf(code, 1)});`,
    ...(char === ' ' ? ['\\+'] : []),
  ];
  const quoted = [
    units.map((unit) => `u${hexOf(unit, 4)}`).join(`${BACKSLASH}{1,16}`),
    ...(code < 256 ? [`x${hexOf(code, 2)}`] : []),
    ...(short === undefined ? [] : [short]),
  ];
  return `(?:${BACKSLASH}{0,16}(?:${plain.join('|')})|${BACKSLASH}{1,16}(?:${quoted.join('|')}))`;
}

function hexOf(value: number, digits: number): string {
  return value.toString(16).padStart(digits, '0');
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/]/g, '\\$&');
}
