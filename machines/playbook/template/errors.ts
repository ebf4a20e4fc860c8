/** What can go wrong with a template. Messages quote its source, never a value that was in it (language 8.12). */

const EXCERPT_MAX = 120;

/** The text is not a template of our dialect: registration refuses the document (`template_syntax`, language 3.2). */
export class TemplateSyntaxError extends Error {
  override readonly name = 'TemplateSyntaxError';
  readonly reason: string;
  readonly excerpt: string;
  /** 0-based offset in the source. */
  readonly offset: number;
  /** Where the string is inside the value given to `compileTree`; empty for a single template. */
  readonly at: readonly (string | number)[];

  constructor(reason: string, excerpt: string, offset: number, at: readonly (string | number)[] = []) {
    super(`${reason} in "${excerpt}"`);
    this.reason = reason;
    this.excerpt = excerpt;
    this.offset = offset;
    this.at = at;
  }
}

export type TemplateErrorCode = 'TEMPLATE_ERROR' | 'TEMPLATE_LIMIT';

/** Evaluation raised (language 8.7) or reached a limit of language 8.12. */
export class TemplateError extends Error {
  override readonly name = 'TemplateError';
  readonly code: TemplateErrorCode;
  readonly expression: string;

  constructor(code: TemplateErrorCode, reason: string, expression: string) {
    super(`${reason} in "${expression}"`);
    this.code = code;
    this.expression = expression;
  }
}

/** What operators and filters throw. They do not know the expression they are in; the render adds it (template.ts). */
export class Fault extends Error {
  readonly code: TemplateErrorCode;

  constructor(message: string, code: TemplateErrorCode = 'TEMPLATE_ERROR') {
    super(message);
    this.code = code;
  }
}

/** Raises an error of language 8.7.4. */
export function fault(reason: string): never {
  throw new Fault(reason);
}

/** Raises a limit of language 8.12.3. */
export function limit(reason: string): never {
  throw new Fault(reason, 'TEMPLATE_LIMIT');
}

/** One line of source short enough for a message. */
export function excerptOf(text: string): string {
  const line = text.trim().replaceAll(/[\r\n\t ]+/g, ' ');
  return line.length > EXCERPT_MAX ? `${line.slice(0, EXCERPT_MAX - 1)}…` : line;
}

/** What a compiler of templates throws for its source; anything else is a defect and goes on up. */
export function syntaxErrorIn(error: unknown): TemplateSyntaxError {
  if (error instanceof TemplateSyntaxError) return error;
  throw error;
}
