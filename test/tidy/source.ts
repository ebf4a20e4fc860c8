/**
 * A source file as the tidiness rules see it: its tokens without comments, and what it imports. The TypeScript
 * compiler's own scanner does the reading, so that text inside strings, templates and regular expressions is never
 * mistaken for code.
 */
import { dirname, join } from 'node:path';
import { LanguageVariant, SyntaxKind } from 'typescript/unstable/ast';
import { createScanner } from 'typescript/unstable/ast/scanner';

export interface Token {
  readonly kind: SyntaxKind;
  readonly text: string;
  /** What a string literal says. */
  readonly value: string;
  readonly line: number;
}

export interface Import {
  /** As written. */
  readonly specifier: string;
  /** Path from the root of the project for a relative import, the package's name otherwise (`node:fs`, `@scope/name`). */
  readonly target: string;
  readonly relative: boolean;
  /** `export … from`. */
  readonly reexport: boolean;
  /** `import type …`: nothing of it is left when the program runs. */
  readonly typeOnly: boolean;
  readonly line: number;
}

export interface Source {
  /** From the root of the project, with `/`. */
  readonly file: string;
  readonly text: string;
  readonly tokens: readonly Token[];
  readonly imports: readonly Import[];
}

export function readSource(file: string, text: string): Source {
  const tokens = tokensOf(file, text);
  return { file, text, tokens, imports: importsOf(file, tokens) };
}

function tokensOf(file: string, text: string): Token[] {
  const scanner = createScanner(true, file.endsWith('.tsx') ? LanguageVariant.JSX : LanguageVariant.Standard, text);
  const lineOf = lineFinder(text);
  const tokens: Token[] = [];
  /** One entry for each `${` whose closing brace continues a template; the number counts braces inside it. */
  const templates: number[] = [];
  for (;;) {
    const from = scanner.getTokenEnd();
    let kind = scanner.scan();
    if (kind === SyntaxKind.EndOfFile) return tokens;
    if (scanner.getTokenText() === '') {
      // Words between JSX tags are read as if they were code; at a lone `#` the scanner stands still.
      scanner.resetTokenState(from + 1);
      continue;
    }
    if ((kind === SyntaxKind.SlashToken || kind === SyntaxKind.SlashEqualsToken) && startsExpression(tokens.at(-1))) {
      kind = scanner.reScanSlashToken();
    }
    const depth = templates.at(-1);
    if (kind === SyntaxKind.TemplateHead) templates.push(0);
    else if (kind === SyntaxKind.OpenBraceToken && depth !== undefined) templates[templates.length - 1] = depth + 1;
    else if (kind === SyntaxKind.CloseBraceToken && depth !== undefined) {
      if (depth > 0) templates[templates.length - 1] = depth - 1;
      else {
        kind = scanner.reScanTemplateToken(false);
        if (kind === SyntaxKind.TemplateTail) templates.pop();
      }
    }
    tokens.push({
      kind,
      text: scanner.getTokenText(),
      value: scanner.getTokenValue(),
      line: lineOf(scanner.getTokenStart()),
    });
  }
}

/** Whether a slash after this token begins a regular expression rather than a division. */
function startsExpression(before: Token | undefined): boolean {
  if (before === undefined) return true;
  const ends = [
    SyntaxKind.CloseParenToken,
    SyntaxKind.CloseBracketToken,
    SyntaxKind.CloseBraceToken,
    SyntaxKind.NumericLiteral,
    SyntaxKind.StringLiteral,
    SyntaxKind.NoSubstitutionTemplateLiteral,
    SyntaxKind.TemplateTail,
    SyntaxKind.RegularExpressionLiteral,
    SyntaxKind.Identifier,
  ];
  return !ends.includes(before.kind);
}

function lineFinder(text: string): (position: number) => number {
  let line = 1;
  let seen = 0;
  return (position) => {
    for (; seen < position; seen++) if (text.charCodeAt(seen) === 10) line++;
    return line;
  };
}

function importsOf(file: string, tokens: readonly Token[]): Import[] {
  const found: Import[] = [];
  for (const [index, token] of tokens.entries()) {
    if (token.kind !== SyntaxKind.StringLiteral) continue;
    const before = tokens[index - 1];
    const dynamic = before?.text === '(' && tokens[index - 2]?.text === 'import';
    if (before?.text !== 'from' && before?.text !== 'import' && !dynamic) continue;
    const opening = openingOf(tokens, index);
    found.push({
      ...targetOf(file, token.value),
      reexport: tokens[opening]?.text === 'export',
      typeOnly: tokens[opening + 1]?.text === 'type' && tokens[opening + 2]?.text !== 'from',
      line: token.line,
    });
  }
  return found;
}

/** Index of the keyword that opened the statement ending in `from '…'`. */
function openingOf(tokens: readonly Token[], index: number): number {
  let at = index - 1;
  while (at > 0 && tokens[at]?.text !== 'import' && tokens[at]?.text !== 'export') at--;
  return at;
}

function targetOf(file: string, specifier: string): Pick<Import, 'specifier' | 'target' | 'relative'> {
  if (specifier.startsWith('.')) return { specifier, target: join(dirname(file), specifier), relative: true };
  const parts = specifier.split('/');
  const target = specifier.startsWith('@') ? parts.slice(0, 2).join('/') : (parts[0] ?? specifier);
  return { specifier, target: specifier.startsWith('node:') ? specifier : target, relative: false };
}
