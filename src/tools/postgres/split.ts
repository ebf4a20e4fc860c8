/**
 * Splits SQL text into statements at top-level semicolons (language 11.2). It follows PostgreSQL's lexer for
 * everything that can hide a semicolon: quotes, E'' escapes, dollar quotes, both comments, and the `begin atomic`
 * bodies of SQL functions. Text that ends inside one of them is left as it is; the database says what is wrong.
 */

/** The statements in order, trimmed, without those that hold only blanks and comments. */
export function splitStatements(sql: string): string[] {
  const statements: string[] = [];
  let start = 0;
  let empty = true;
  const body = createBodyTracker();
  const cut = (end: number) => {
    const text = sql.slice(start, end).trim();
    if (!empty && text !== '') statements.push(text);
    empty = true;
    body.reset();
  };
  for (let at = 0; at < sql.length; ) {
    const comment = skipComment(sql, at);
    if (comment > at) {
      at = comment;
      continue;
    }
    const char = sql[at] ?? '';
    if (char === ';' && !body.inside()) {
      cut(at);
      at += 1;
      start = at;
      continue;
    }
    if (/\s/.test(char)) {
      at += 1;
      continue;
    }
    empty = false;
    const end = skipToken(sql, at);
    body.see(sql.slice(at, end));
    at = end;
  }
  cut(sql.length);
  return statements;
}

function skipComment(sql: string, at: number): number {
  if (sql.startsWith('--', at)) {
    const end = sql.slice(at).search(/[\n\r]/);
    return end < 0 ? sql.length : at + end + 1;
  }
  if (!sql.startsWith('/*', at)) return at;
  let depth = 1;
  let next = at + 2;
  while (next < sql.length && depth > 0) {
    if (sql.startsWith('/*', next)) {
      depth += 1;
      next += 2;
    } else if (sql.startsWith('*/', next)) {
      depth -= 1;
      next += 2;
    } else next += 1;
  }
  return next;
}

const word = /[\p{L}_\u0080-\uffff][\p{L}\p{N}_$\u0080-\uffff]*/uy;
const dollarTag = /\$(?:[\p{L}_\u0080-\uffff][\p{L}\p{N}_\u0080-\uffff]*)?\$/uy;

/** The end of the token that begins at `at`, which is neither a blank nor a comment. */
function skipToken(sql: string, at: number): number {
  const char = sql[at] ?? '';
  if (char === "'") return skipQuoted(sql, at, "'", false);
  if (char === '"') return skipQuoted(sql, at, '"', false);
  if (char === '$') {
    const tag = matchAt(dollarTag, sql, at);
    if (tag === null) return at + 1;
    const close = sql.indexOf(tag, at + tag.length);
    return close < 0 ? sql.length : close + tag.length;
  }
  const name = matchAt(word, sql, at);
  if (name !== null) {
    const end = at + name.length;
    // The prefix belongs to the string only when nothing stands between them.
    return /^[eE]$/.test(name) && sql[end] === "'" ? skipQuoted(sql, end, "'", true) : end;
  }
  const number = matchAt(/\d[\d_.]*/y, sql, at);
  return number === null ? at + 1 : at + number.length;
}

/** The end of a quoted text; a doubled quote stays inside, with `escapes` so does a quote behind a backslash. */
function skipQuoted(sql: string, at: number, quote: string, escapes: boolean): number {
  for (let next = at + 1; next < sql.length; next += 1) {
    const char = sql[next];
    if (escapes && char === '\\') next += 1;
    else if (char === quote) {
      if (sql[next + 1] !== quote) return next + 1;
      next += 1;
    }
  }
  return sql.length;
}

function matchAt(pattern: RegExp, text: string, at: number): string | null {
  pattern.lastIndex = at;
  return pattern.exec(text)?.[0] ?? null;
}

/** Follows `create function ... begin atomic ... end`, whose semicolons separate the statements of the body. */
function createBodyTracker(): { see(token: string): void; inside(): boolean; reset(): void } {
  let words: string[] = [];
  let depth = 0;
  let previous = '';
  return {
    see(token) {
      const lower = token.toLowerCase();
      if (words.length < 5 && /^[a-z]/.test(lower)) words.push(lower);
      const routine = words[0] === 'create' && (words.includes('function') || words.includes('procedure'));
      if (routine && previous === 'begin' && lower === 'atomic') depth += 1;
      else if (depth > 0 && lower === 'case') depth += 1;
      else if (depth > 0 && lower === 'end') depth -= 1;
      previous = lower;
    },
    inside: () => depth > 0,
    reset() {
      words = [];
      depth = 0;
      previous = '';
    },
  };
}
