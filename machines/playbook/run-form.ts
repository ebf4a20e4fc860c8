/**
 * The form by which a playbook is started (api 2.2.13): a field for each key of `workload`, in document order. What a
 * value cannot say, its comments may: `ui:secret`, `enum=[a, b]`, `credential=<glob>`, `description=<text>`, behind the
 * key or on the lines above it.
 */
import { isMap, type Json } from '../json.ts';
import { known } from '../known.ts';
import { LineIndex, type YamlEntry, type YamlNode } from './yaml-node.ts';
import { readYaml } from './yaml-source.ts';

export interface FormField {
  readonly name: string;
  readonly kind: 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'array' | 'null' | 'enum';
  readonly default: Json;
  readonly description: string | null;
  readonly secret: boolean;
  readonly credentialGlob: string | null;
  readonly options: readonly Json[];
  readonly children: readonly FormField[];
}

export interface RunForm {
  readonly title: string | null;
  readonly description: string;
  readonly isExposed: boolean;
  readonly fields: readonly FormField[];
}

/** The form of a document; without a workload, or where the text is no map, it has no fields. */
export function runFormOf(content: string): RunForm {
  const reading = readYaml(content);
  const root = reading.ok && reading.root.kind === 'map' ? reading.root : null;
  const metadata = isMap(root?.json['metadata']) ? root.json['metadata'] : {};
  const workload = root?.entries.find((entry) => entry.key === 'workload')?.value;
  const lines = new Lines(reading.text);
  return {
    title: textOf(metadata['name']),
    description: textOf(metadata['description']) ?? '',
    isExposed: metadata['exposed_in_ui'] !== false,
    fields: workload === undefined ? [] : fieldsOf(workload, lines),
  };
}

function fieldsOf(node: YamlNode, lines: Lines): readonly FormField[] {
  if (node.kind !== 'map') return [];
  return node.entries.map((entry) => {
    const directives = directivesOf(lines.commentsOf(entry));
    const { json } = entry.value;
    return {
      name: entry.key,
      kind: directives.options.length > 0 ? 'enum' : kindOf(json),
      default: json,
      description: directives.description,
      secret: directives.secret,
      credentialGlob: directives.credential,
      options: directives.options,
      children: fieldsOf(entry.value, lines),
    };
  });
}

function kindOf(value: Json): FormField['kind'] {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  switch (typeof value) {
    case 'string':
      return 'string';
    case 'boolean':
      return 'boolean';
    case 'number':
      return Number.isInteger(value) ? 'integer' : 'number';
    default:
      return 'object';
  }
}

interface Directives {
  readonly secret: boolean;
  readonly options: readonly Json[];
  readonly credential: string | null;
  readonly description: string | null;
}

/** A description goes to the end of its comment, so it comes last there. */
function directivesOf(comments: readonly string[]): Directives {
  let secret = false;
  let options: readonly Json[] = [];
  let credential: string | null = null;
  let description: string | null = null;
  for (const comment of comments) {
    const at = comment.search(/(?:^|[\s,;])description=/);
    const head = at < 0 ? comment : comment.slice(0, at);
    if (at >= 0) description = unquoted(comment.slice(comment.indexOf('=', at) + 1).trim());
    if (/(?:^|[\s,;])ui:secret(?=$|[\s,;])/.test(head)) secret = true;
    const list = /(?:^|[\s,;])enum=\[([^\]]*)\]/.exec(head)?.[1];
    if (list !== undefined) options = optionsIn(list);
    credential = /(?:^|[\s,;])credential=([^\s,;]+)/.exec(head)?.[1] ?? credential;
  }
  return { secret, options, credential, description };
}

/** Options are written as YAML, so `1` is a number and `"1"` is text. */
function optionsIn(list: string): readonly Json[] {
  const reading = readYaml(`[${list}]`);
  return reading.ok && reading.root.kind === 'list' ? reading.root.json : [];
}

function unquoted(text: string): string {
  const found = /^(["'])(.*)\1$/.exec(text);
  return found?.[2] ?? text;
}

function textOf(value: Json | undefined): string | null {
  return typeof value === 'string' && value.trim() !== '' ? value : null;
}

/** The comments of a text, found by lines; the YAML reader drops them. */
class Lines {
  readonly #lines: readonly string[];
  readonly #index: LineIndex;

  constructor(text: string) {
    this.#lines = text.split('\n');
    this.#index = new LineIndex(text);
  }

  /** Comment lines right above the key, at its indentation, and the comment behind it. */
  commentsOf({ keyAt }: YamlEntry): readonly string[] {
    const { line, column } = this.#index.position(keyAt.start);
    const found: string[] = [];
    for (let at = line - 2; at >= 0; at -= 1) {
      const above = known(this.#lines[at]);
      const comment = /^(\s*)#(.*)$/.exec(above);
      if (comment === null || comment[1]?.length !== column - 1) break;
      found.unshift(known(comment[2]).trim());
    }
    const behind = commentIn(known(this.#lines[line - 1]).slice(column - 1));
    return behind === null ? found : [...found, behind];
  }
}

/** What stands behind a `#` that is neither in quotes nor part of a word. */
function commentIn(line: string): string | null {
  let quote: string | null = null;
  for (let at = 0; at < line.length; at += 1) {
    const char = line[at];
    if (quote !== null) {
      if (char === '\\' && quote === '"') at += 1;
      else if (char === quote) quote = null;
    } else if ((char === '"' || char === "'") && /[\s:,[{]|^$/.test(line.charAt(at - 1))) quote = char;
    else if (char === '#' && /\s/.test(line.charAt(at - 1))) return line.slice(at + 1).trim();
  }
  return null;
}
