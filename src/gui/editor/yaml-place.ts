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
