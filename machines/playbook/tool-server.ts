/**
 * What a catalog entry of kind `mcp` says (language 2.6): where its server is, which tools it is known to have, which
 * playbook runs an action on it. The service leaves everything else in `spec` to these playbooks.
 */
import { dump } from 'js-yaml';
import { canonicalJson } from '../canonical-json.ts';
import { isMap, type JsonMap } from '../json.ts';
import type { YamlEntry, YamlNode } from './yaml-node.ts';
import { readYaml } from './yaml-source.ts';

export interface ToolServerSpec {
  readonly spec: JsonMap;
  readonly metadata: JsonMap;
  readonly endpoint: string | null;
  readonly tools: readonly JsonMap[];
}

/** Nothing of it is required, and what has another form counts as absent. */
export function readToolServer(payload: JsonMap): ToolServerSpec {
  const spec = mapAt(payload, 'spec');
  const { tools } = spec;
  return {
    spec,
    metadata: mapAt(payload, 'metadata'),
    endpoint: textAt(spec, 'endpoint') ?? textAt(spec, 'url'),
    tools: Array.isArray(tools) ? tools.filter(isMap) : [],
  };
}

/** The path of the playbook behind an action; null where the entry declares none. */
export function lifecycleAgent(spec: JsonMap, action: string): string | null {
  return textAt(mapAt(spec, 'lifecycle'), action);
}

/** Servers do not promise an order, so another order is no change. */
export function haveSameTools(some: readonly JsonMap[], others: readonly JsonMap[]): boolean {
  const texts = (tools: readonly JsonMap[]) => tools.map(canonicalJson).sort();
  return JSON.stringify(texts(some)) === JSON.stringify(texts(others));
}

/**
 * The text of an entry with these tools in place of its own; comments and the order of everything else stay. Where the
 * text does not let a part be replaced (a map in braces, an alias to what goes) the document is written anew.
 */
export function withTools(content: string, payload: JsonMap, tools: readonly JsonMap[]): string {
  const wanted = { ...payload, spec: { ...mapAt(payload, 'spec'), tools } };
  const text = replaceTools(content, tools);
  return text !== null && says(text, wanted) ? text : yamlOf(wanted);
}

function replaceTools(content: string, tools: readonly JsonMap[]): string | null {
  const reading = readYaml(content);
  const spec = reading.ok ? entriesOf(reading.root).find(({ key }) => key === 'spec') : undefined;
  const members = spec === undefined ? [] : entriesOf(spec.value);
  const [first] = members;
  if (first === undefined) return null;
  const old = members.find(({ key }) => key === 'tools');
  const { text } = reading;
  const place = linePlace(text, (old ?? first).keyAt.start);
  if (place === null) return null;
  // Without tools so far they go behind the last line of the spec.
  const inside = old === undefined ? ' *\\S' : '(?: +\\S|-\\s)';
  const end = blockEnd(text, place.nextLine, new RegExp(`^ {${place.indent}}${inside}`));
  const before = text.slice(0, old === undefined ? end : place.line);
  const block = yamlOf({ tools }).replaceAll(/^(?=.)/gm, ' '.repeat(place.indent));
  return `${before}${before === '' || before.endsWith('\n') ? '' : '\n'}${block}${text.slice(end)}`;
}

function entriesOf(node: YamlNode): readonly YamlEntry[] {
  return node.kind === 'map' ? node.entries : [];
}

/** The line a key begins, and where the next one starts; null for a key that is not the first of its line. */
function linePlace(text: string, keyStart: number): { line: number; indent: number; nextLine: number } | null {
  const line = text.lastIndexOf('\n', keyStart - 1) + 1;
  if (!/^ *$/.test(text.slice(line, keyStart))) return null;
  return { line, indent: keyStart - line, nextLine: nextLineAfter(text, keyStart) };
}

/** Behind the last line that belongs to a block; empty lines and comments count only with such a line behind them. */
function blockEnd(text: string, from: number, inside: RegExp): number {
  let end = from;
  for (let line = from; line < text.length; ) {
    const next = nextLineAfter(text, line);
    const words = text.slice(line, next);
    if (inside.test(words)) end = next;
    else if (!/^\s*(?:#|$)/.test(words)) break;
    line = next;
  }
  return end;
}

function nextLineAfter(text: string, at: number): number {
  const end = text.indexOf('\n', at);
  return end < 0 ? text.length : end + 1;
}

function says(text: string, wanted: JsonMap): boolean {
  const reading = readYaml(text);
  return reading.ok && canonicalJson(reading.root.json) === canonicalJson(wanted);
}

function yamlOf(document: JsonMap): string {
  return dump(document, { lineWidth: -1, noRefs: true });
}

function mapAt(map: JsonMap, key: string): JsonMap {
  const value = Object.hasOwn(map, key) ? map[key] : undefined;
  return isMap(value) ? value : {};
}

function textAt(map: JsonMap, key: string): string | null {
  const value = Object.hasOwn(map, key) ? map[key] : undefined;
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
}
