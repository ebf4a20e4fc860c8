/**
 * Reads a YAML text into a tree with positions. The parser only yields events with offsets; the tree is built here,
 * because that is where duplicate keys, cycles and the growth by aliases can be judged before anything is expanded.
 */
import {
  EVENT_ID,
  type Event,
  getScalarValue,
  parseEvents,
  SCALAR_STYLE,
  type ScalarEvent,
  YAMLException,
} from 'js-yaml';
import type { Json } from '../json.ts';
import { known } from '../known.ts';
import type { Span, YamlEntry, YamlNode } from './yaml-node.ts';
import { readPlain, readTagged } from './yaml-scalar.ts';

export const YAML_LIMITS = { bytes: 1024 * 1024, depth: 64, aliases: 1000, expandedSize: 4 * 1024 * 1024 } as const;

export interface YamlProblem {
  readonly message: string;
  readonly at: Span;
}

export type YamlReading =
  | { readonly ok: true; readonly text: string; readonly root: YamlNode }
  | { readonly ok: false; readonly text: string; readonly problems: readonly YamlProblem[] };

const QUOTE_HINT = 'quote values that start with a template, such as key: "{{ value }}"';
const START: Span = { start: 0, end: 0 };

/**
 * The one document of a text. Never throws. `text` in the answer is what offsets count in (without a byte order mark).
 * All duplicate keys are reported at once; a text the parser refuses has one problem.
 */
export function readYaml(source: string): YamlReading {
  const text = source.startsWith('\uFEFF') ? source.slice(1) : source;
  const refusal = refuseText(text);
  if (refusal) return { ok: false, text, problems: [refusal] };
  let events: Event[];
  try {
    // The parser counts the scalar inside and a possible key as levels of their own; the tree counts exactly.
    events = parseEvents(text, { maxDepth: YAML_LIMITS.depth + 2 });
  } catch (error) {
    return { ok: false, text, problems: [parserProblem(text, error)] };
  }
  const builder = new TreeBuilder(text);
  for (const event of events) {
    builder.take(event);
    if (builder.stopped) break;
  }
  const root = builder.root;
  if (builder.problems.length > 0) return { ok: false, text, problems: builder.problems };
  if (root === null) return { ok: false, text, problems: [{ message: 'the document is empty', at: START }] };
  return { ok: true, text, root };
}

function refuseText(text: string): YamlProblem | null {
  // Four bytes is the most a UTF-16 unit pair needs, so a short text cannot be too large and is not measured.
  if (text.length > YAML_LIMITS.bytes || (text.length * 3 > YAML_LIMITS.bytes && utf8Size(text) > YAML_LIMITS.bytes)) {
    return { message: `the text is larger than ${YAML_LIMITS.bytes} bytes`, at: START };
  }
  const nul = text.indexOf('\0');
  if (nul >= 0) return { message: 'NUL characters are not allowed', at: { start: nul, end: nul + 1 } };
  if (text.isWellFormed()) return null;
  const lone = text.search(/\p{Surrogate}/u);
  return { message: 'the text is not valid Unicode (lone surrogate)', at: { start: lone, end: lone + 1 } };
}

function utf8Size(text: string): number {
  let size = text.length;
  for (let index = 0; index < text.length; index += 1) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) continue;
    // A surrogate pair is four bytes in two units: one byte more for each of them.
    size += unit < 0x800 || (unit >= 0xd800 && unit < 0xe000) ? 1 : 2;
  }
  return size;
}

/** Whatever the parser throws is a problem of the text, at the place it names. */
export function parserProblem(text: string, error: unknown): YamlProblem {
  if (!(error instanceof YAMLException)) return { message: 'the text cannot be read as YAML', at: START };
  const start = Math.min(error.mark?.position ?? 0, text.length);
  const reason = error.reason.startsWith('nesting exceeded')
    ? `nesting is deeper than ${YAML_LIMITS.depth} levels`
    : error.reason;
  return { message: withHint(text, start, reason), at: { start, end: start } };
}

/** Adds the advice to quote when the line, or the one before, has a template where a plain value starts. */
function withHint(text: string, offset: number, reason: string): string {
  const from = text.lastIndexOf('\n', text.lastIndexOf('\n', offset - 1) - 1) + 1;
  const end = text.indexOf('\n', offset);
  const lines = text.slice(from, end < 0 ? text.length : end);
  return /(^|[:\-[,{]\s+|[[{,])\{[{%]/m.test(lines) ? `${reason}; ${QUOTE_HINT}` : reason;
}

interface Frame {
  readonly kind: 'document' | 'list' | 'map';
  readonly start: number;
  readonly anchor: string | null;
  readonly items: YamlNode[];
  readonly entries: YamlEntry[];
  readonly keys: Set<string>;
  key: { readonly text: string; readonly at: Span } | null;
  end: number;
  size: number;
  height: number;
}

interface Measured {
  readonly node: YamlNode;
  /** Characters and nodes after expanding every alias inside. */
  readonly size: number;
  readonly height: number;
}

class TreeBuilder {
  readonly problems: YamlProblem[] = [];
  root: YamlNode | null = null;
  stopped = false;
  readonly #text: string;
  readonly #stack: Frame[] = [];
  readonly #anchors = new Map<string, Measured | 'open'>();
  #documents = 0;
  #aliases = 0;
  #last = 0;

  constructor(text: string) {
    this.#text = text;
  }

  take(event: Event): void {
    switch (event.type) {
      case EVENT_ID.DOCUMENT:
        this.#documents += 1;
        if (this.#documents > 1) this.#stop('only one document is allowed', this.#nextMarker());
        else this.#open('document', 0, null);
        return;
      case EVENT_ID.SEQUENCE:
      case EVENT_ID.MAPPING: {
        const sequence = event.type === EVENT_ID.SEQUENCE;
        const tag = this.#slice(event.tagStart, event.tagEnd);
        if (tag !== null && tag !== '!' && tag !== (sequence ? '!!seq' : '!!map')) {
          this.#problem(`unknown tag ${tag}`, { start: event.tagStart, end: event.tagEnd });
        }
        this.#open(sequence ? 'list' : 'map', event.start, this.#slice(event.anchorStart, event.anchorEnd));
        return;
      }
      case EVENT_ID.SCALAR:
        this.#scalar(event);
        return;
      case EVENT_ID.ALIAS:
        this.#alias({ start: event.anchorStart - 1, end: event.anchorEnd });
        return;
      case EVENT_ID.POP:
        this.#close();
        return;
    }
  }

  #open(kind: Frame['kind'], start: number, anchor: string | null): void {
    if (anchor !== null) this.#anchors.set(anchor, 'open');
    const frame = { kind, start, anchor, items: [], entries: [], keys: new Set<string>(), key: null, end: start + 1 };
    this.#stack.push({ ...frame, size: 0, height: 0 });
  }

  #scalar(event: ScalarEvent): void {
    const parent = this.#stack.at(-1);
    const at = this.#scalarSpan(event, parent);
    const text = getScalarValue(this.#text, event);
    if (!text.isWellFormed()) this.#problem('the text is not valid Unicode (lone surrogate)', at);
    if (text.includes('\0')) this.#problem('NUL characters are not allowed', at);
    const tag = this.#slice(event.tagStart, event.tagEnd);
    const key = parent?.kind === 'map' && parent.key === null;
    const plain = event.style === SCALAR_STYLE.PLAIN;
    const reading =
      tag !== null ? readTagged(tag, text) : plain && !key ? readPlain(text) : ({ ok: true, value: text } as const);
    if (!reading.ok) this.#problem(reading.reason, at);
    // A key keeps its spelling: `1:` is the key '1'. An empty one is the core schema's null.
    const json = reading.ok && !key ? reading.value : key && plain && text === '' ? 'null' : text;
    const measured: Measured = { node: { kind: 'scalar', at, json }, size: text.length + 1, height: 0 };
    const anchor = this.#slice(event.anchorStart, event.anchorEnd);
    if (anchor !== null) this.#anchors.set(anchor, measured);
    this.#add(measured);
  }

  /** Where the next document is announced; its event has no place of its own. */
  #nextMarker(): Span {
    const marker = this.#text.slice(this.#last).search(/^---/m);
    const start = this.#last + Math.max(marker, 0);
    return { start, end: start + (marker < 0 ? 0 : 3) };
  }

  /** An empty value stands at its key, a block scalar at its `|` or `>`. */
  #scalarSpan(event: ScalarEvent, parent: Frame | undefined): Span {
    if (event.valueStart < 0) return parent?.key?.at ?? { start: this.#last, end: this.#last };
    const quoted = event.style === SCALAR_STYLE.SINGLE_QUOTED || event.style === SCALAR_STYLE.DOUBLE_QUOTED;
    this.#last = event.valueEnd;
    if (quoted) return { start: event.valueStart - 1, end: event.valueEnd + 1 };
    if (event.style === SCALAR_STYLE.PLAIN) return { start: event.valueStart, end: event.valueEnd };
    const lineEnd = this.#text.lastIndexOf('\n', event.valueStart - 1);
    const lineStart = this.#text.lastIndexOf('\n', lineEnd - 1) + 1;
    const header = this.#text.slice(lineStart, Math.max(lineEnd, lineStart)).search(/[|>][0-9+-]{0,2}[ \t\r]*(#.*)?$/);
    const start = header < 0 ? event.valueStart : lineStart + header;
    return { start, end: event.valueEnd };
  }

  #alias(at: Span): void {
    this.#last = at.end;
    this.#aliases += 1;
    if (this.#aliases > YAML_LIMITS.aliases) {
      this.#stop(`more than ${YAML_LIMITS.aliases} aliases`, at);
      return;
    }
    const name = this.#text.slice(at.start + 1, at.end);
    const target = this.#anchors.get(name);
    if (target === undefined) {
      this.#stop(`unknown alias '${name}'`, at);
      return;
    }
    if (target === 'open') {
      this.#stop(`alias '${name}' refers to the value it is part of`, at);
      return;
    }
    this.#add(target);
  }

  #close(): void {
    const frame = known(this.#stack.pop());
    if (frame.kind === 'document') {
      const [root = null] = frame.items;
      this.root = root;
      return;
    }
    const at = { start: frame.start, end: frame.end };
    const node: YamlNode =
      frame.kind === 'list'
        ? { kind: 'list', at, items: frame.items, json: frame.items.map((item) => item.json) }
        : { kind: 'map', at, entries: frame.entries, json: jsonOfEntries(frame.entries) };
    const measured = { node, size: frame.size + 1, height: frame.height + 1 };
    if (frame.anchor !== null) this.#anchors.set(frame.anchor, measured);
    this.#add(measured);
  }

  #add({ node, size, height }: Measured): void {
    const parent = known(this.#stack.at(-1));
    if (parent.items.length === 0 && parent.entries.length === 0 && parent.key === null) parent.end = node.at.end;
    parent.size += size;
    parent.height = Math.max(parent.height, height);
    if (parent.size > YAML_LIMITS.expandedSize) {
      this.#stop('aliases expand to more than 4 MiB', node.at);
      return;
    }
    if (parent.height >= YAML_LIMITS.depth && parent.kind !== 'document') {
      this.#stop(`nesting is deeper than ${YAML_LIMITS.depth} levels`, node.at);
      return;
    }
    if (parent.kind !== 'map') parent.items.push(node);
    else if (parent.key === null) this.#addKey(parent, node);
    else {
      parent.entries.push({ key: parent.key.text, keyAt: parent.key.at, value: node });
      parent.key = null;
    }
  }

  #addKey(parent: Frame, node: YamlNode): void {
    const key = node.kind === 'scalar' ? String(node.json) : '';
    parent.key = { text: key, at: node.at };
    if (node.kind !== 'scalar') {
      this.#problem(withHint(this.#text, node.at.start, 'a map key must be text'), node.at);
    } else if (key === '__proto__') {
      this.#problem("the key '__proto__' is not allowed", node.at);
    } else if (parent.keys.has(key)) {
      this.#problem(`duplicate key '${key.slice(0, 80)}'`, node.at);
    }
    parent.keys.add(key);
  }

  #problem(message: string, at: Span): void {
    // A hostile text may have a problem per line; the first hundred say enough.
    if (this.problems.length < 100) this.problems.push({ message, at });
  }

  #stop(message: string, at: Span): void {
    this.#problem(message, at);
    this.stopped = true;
  }

  #slice(start: number, end: number): string | null {
    return start < 0 ? null : this.#text.slice(start, end);
  }
}

function jsonOfEntries(entries: readonly YamlEntry[]): { readonly [key: string]: Json } {
  return Object.fromEntries(entries.map(({ key, value }) => [key, value.json]));
}
