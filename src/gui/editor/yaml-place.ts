/**
 * Where in a YAML text one stands, from indentation alone: it works while the text is half written, which is when
 * completion is asked for. Pure.
 */

export interface YamlPlace {
  /** Keys around the line, from the outside in. */
  readonly path: readonly string[];
  /** Key of the line itself, when the cursor stands behind its colon. */
  readonly key: string | null;
  /** What has been written of the word. */
  readonly word: string;
  /** Kind of the tool around it, when one is said. */
  readonly kind: string | null;
}

const KEY = /^(\s*)((?:-\s+)*)(?:["']?([\w.$-]+)["']?\s*:)?/;

interface Read {
  readonly depth: number;
  readonly dashDepth: number | null;
  readonly key: string | null;
}

/** `lineNumber` counts from 0; `before` is the line up to the cursor. */
export function placeAt(lines: readonly string[], lineNumber: number, before: string): YamlPlace | null {
  if (/^\s*#/.test(before)) return null;
  const flow = flowAt(before);
  if (flow !== null) return placeInFlow(lines, lineNumber, flow, before);
  const here = read(before);
  const behindColon = here.key !== null && /:\s/.test(before);
  const path: string[] = [];
  // A key inside a list item belongs to what holds the list, so both depths count.
  let depth = here.dashDepth ?? (before.trim() === '' ? before.length : here.depth);
  let inItem = here.dashDepth === null;
  for (let at = lineNumber - 1; at >= 0 && (depth > 0 || !inItem); at--) {
    const line = lines[at] ?? '';
    if (line.trim() === '' || /^\s*#/.test(line)) continue;
    const above = read(line);
    if (above.dashDepth !== null && inItem && above.dashDepth < depth) {
      if (above.key !== null && above.depth < depth) path.unshift(above.key);
      depth = above.dashDepth;
      inItem = false;
    } else if (
      above.dashDepth === null &&
      above.key !== null &&
      (above.depth < depth || (!inItem && above.depth === depth))
    ) {
      path.unshift(above.key);
      depth = above.depth;
      inItem = true;
    }
  }
  return {
    path,
    key: behindColon ? here.key : null,
    word: /[\w./-]*$/.exec(before)?.[0] ?? '',
    kind: kindAround(lines, lineNumber, here.depth),
  };
}

interface Flow {
  /** Keys in front of the braces that are still open, and null for braces without one. */
  readonly keys: readonly (string | null)[];
  /** Behind the last brace or comma. */
  readonly rest: string;
  /** In front of the first brace, its key left out. */
  readonly indent: string;
}

/** Open braces of a line up to the cursor, as in `tool: { kind: noop, res`; null when there are none. */
function flowAt(before: string): Flow | null {
  const keys: (string | null)[] = [];
  let rest = before;
  let quote = '';
  let from = 0;
  for (const [at, letter] of [...before].entries()) {
    if (quote !== '') {
      if (letter === quote) quote = '';
    } else if (letter === '"' || letter === "'") quote = letter;
    else if (letter === '{') {
      keys.push(/([\w.$-]+)["']?\s*:\s*\[?\s*$/.exec(before.slice(from, at))?.[1] ?? null);
      from = at + 1;
    } else if (letter === '}') {
      keys.pop();
      from = at + 1;
    } else if (letter === ',') from = at + 1;
    rest = before.slice(from);
  }
  return keys.length === 0 ? null : { keys, rest, indent: /^\s*(?:-\s+)*/.exec(before)?.[0] ?? '' };
}

function placeInFlow(lines: readonly string[], lineNumber: number, flow: Flow, before: string): YamlPlace | null {
  const around = placeAt(lines, lineNumber, flow.indent);
  if (around === null) return null;
  const line = lines[lineNumber] ?? before;
  return {
    path: [...around.path, ...flow.keys.filter((each) => each !== null)],
    key: /^\s*["']?([\w.$-]+)["']?\s*:\s/.exec(flow.rest)?.[1] ?? null,
    word: /[\w./-]*$/.exec(before)?.[0] ?? '',
    kind: /\bkind:\s*["']?(\w+)/.exec(line)?.[1] ?? around.kind,
  };
}

/** The key of a line whose letters stand around a column, counted from 0; null elsewhere. */
export function keyAt(
  line: string,
  column: number,
): { readonly key: string; readonly from: number; readonly to: number } | null {
  if (/^\s*#/.test(line)) return null;
  // In flow style several keys stand on one line.
  for (const found of line.matchAll(/(?<=^\s*(?:-\s+)*|[{,]\s*)["']?([\w.$-]+)["']?(?=\s*:(?:\s|$))/g)) {
    const [written, key = ''] = found;
    if (column >= found.index && column <= found.index + written.length)
      return { key, from: found.index, to: found.index + written.length };
  }
  return null;
}

/** Names of all steps, in the order of the text. */
export function stepNames(lines: readonly string[]): readonly string[] {
  const names = lines.flatMap((line) => {
    const name = /^\s*-\s+step:\s*["']?([\w.-]+)/.exec(line)?.[1];
    return name === undefined ? [] : [{ name, depth: line.search(/\S/) }];
  });
  // Arcs also begin with `- step:`, but stand further in.
  const least = Math.min(...names.map((each) => each.depth));
  return names.filter((each) => each.depth === least).map((each) => each.name);
}

function kindAround(lines: readonly string[], lineNumber: number, depth: number): string | null {
  const kindOn = (at: number): string | null => {
    const line = lines[at] ?? '';
    return read(line).depth === depth ? (/\bkind:\s*["']?(\w+)/.exec(line)?.[1] ?? null) : null;
  };
  for (let at = lineNumber; at >= 0 && isInside(lines[at], depth); at--) {
    const kind = kindOn(at);
    if (kind !== null) return kind;
  }
  for (let at = lineNumber + 1; at < lines.length && isInside(lines[at], depth); at++) {
    const kind = kindOn(at);
    if (kind !== null) return kind;
  }
  return null;
}

function isInside(line: string | undefined, depth: number): boolean {
  return line !== undefined && (line.trim() === '' || read(line).depth >= depth);
}

function read(line: string): Read {
  const [, indent = '', dashes = '', key] = KEY.exec(line) ?? [];
  return {
    depth: indent.length + dashes.length,
    dashDepth: dashes === '' ? null : indent.length,
    key: key ?? null,
  };
}
