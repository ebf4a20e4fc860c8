/**
 * Which tables of an attached database a statement may mean: every `alias.table` and `alias.schema.table` outside of
 * texts and comments. DuckDB's own answer leaves out tables inside of joins and common table expressions, so this looks
 * at tokens and finds too much rather than too little: a column of a table with that alias looks the same.
 */

/** `[table]` or `[schema, table]`. */
export type Mention = readonly string[];

// Unclosed texts and comments end with the statement, so that no token is looked at twice.
const token =
  /'(?:[^']|'')*(?:'|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|\$(\w*)\$[\s\S]*?(?:\$\1\$|$)|"(?:[^"]|"")*(?:"|$)|[\p{L}_][\p{L}\p{N}_$]*|\.|\S/gu;

/** Each once; names are compared as DuckDB does, without regard to case. */
export function mentionsOf(statements: readonly string[], alias: string): readonly Mention[] {
  const found = new Map<string, Mention>();
  for (const statement of statements) {
    const tokens = [...statement.matchAll(token)].map(([text]) => text).filter((text) => !/^(?:--|\/\*)/.test(text));
    for (let at = 0; at < tokens.length; at += 1) {
      if (tokens[at - 1] === '.' || nameIn(tokens[at])?.toLowerCase() !== alias.toLowerCase()) continue;
      const first = tokens[at + 1] === '.' ? nameIn(tokens[at + 2]) : null;
      const second = first !== null && tokens[at + 3] === '.' ? nameIn(tokens[at + 4]) : null;
      // `alias.table.column` cannot be told from `alias.schema.table`.
      if (first !== null) add(found, [first]);
      if (first !== null && second !== null) add(found, [first, second]);
    }
  }
  return [...found.values()];
}

function add(found: Map<string, Mention>, mention: Mention): void {
  const key = JSON.stringify(mention.map((part) => part.toLowerCase()));
  if (!found.has(key)) found.set(key, mention);
}

/** The name a token is, or null. */
function nameIn(text: string | undefined): string | null {
  if (text === undefined) return null;
  if (/^".*"$/s.test(text) && text.length > 2) return text.slice(1, -1).replaceAll('""', '"');
  return /^[\p{L}_]/u.test(text) ? text : null;
}
