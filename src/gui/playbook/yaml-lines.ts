/**
 * YAML cut up for colours, line by line: keys, quoted texts, comments, and the rest. Reading only: what it takes for a key
 * changes a colour and nothing else, so it is simpler than a parser. Code in a block (`code: |`) stays as it is. Pure.
 */

export interface YamlPart {
  readonly kind: 'key' | 'string' | 'comment' | 'plain';
  readonly text: string;
}

/** Indent and dashes, key, colon, rest. A key is a quoted text or a word that no value, flow or tag begins. */
const KEY = /^(\s*(?:-\s+)*)("(?:\\.|[^"\\])*"|'(?:''|[^'])*'|[^\s#'"{}[\],&*!|>%@`-][^#:]*?)(\s*:)(?=\s|$)(.*)$/;
const DASHES = /^(\s*(?:-\s+)*)(.*)$/;
const BLOCK = /(?:^|\s)[|>][-+\d]*\s*(?:#.*)?$/;
const COMMENT = /(^|\s)(#.*)$/;
const QUOTED = /^("(?:\\.|[^"\\])*"|'(?:''|[^'])*')(.*)$/;

/** One list of parts for each line; the texts of a line's parts together are the line. */
export function yamlLines(text: string): readonly (readonly YamlPart[])[] {
  let block: number | null = null;
  return text.split('\n').map((line) => {
    const indent = line.length - line.trimStart().length;
    if (block !== null) {
      if (line.trim() === '' || indent > block) return [plain(line)].filter(isSome);
      block = null;
    }
    const [, before = '', key = '', colon = '', rest = ''] = KEY.exec(line) ?? [];
    if (BLOCK.test(key === '' ? line : rest)) block = before.length;
    if (key !== '')
      return [plain(before), { kind: 'key', text: key } as const, plain(colon), ...valueParts(rest)].filter(isSome);
    const [, dashes = '', value = ''] = DASHES.exec(line) ?? [];
    return [plain(dashes), ...valueParts(value)].filter(isSome);
  });
}

function valueParts(text: string): readonly YamlPart[] {
  const space = text.slice(0, text.length - text.trimStart().length);
  const value = text.slice(space.length);
  const quoted = QUOTED.exec(value);
  if (quoted !== null) return [plain(space), { kind: 'string', text: quoted[1] ?? '' }, ...comment(quoted[2] ?? '')];
  return [plain(space), ...comment(value)];
}

function comment(text: string): readonly YamlPart[] {
  const found = COMMENT.exec(text);
  if (found === null) return [plain(text)];
  const at = found.index + (found[1] ?? '').length;
  return [plain(text.slice(0, at)), { kind: 'comment', text: text.slice(at) }];
}

function plain(text: string): YamlPart {
  return { kind: 'plain', text };
}

function isSome({ text }: YamlPart): boolean {
  return text !== '';
}
