/** A scope over a plain object, for tests. */
import { readFileSync } from 'node:fs';
import { compileTemplate } from '../../../machines/playbook/template/compiled.ts';
import type { Scope } from '../../../machines/playbook/template/facade.ts';
import { evaluateNative, renderText } from '../../../machines/playbook/template/render.ts';
import type { Limits } from '../../../machines/playbook/template/run.ts';

export type Data = { readonly [name: string]: unknown };

export interface Goldens {
  readonly data: Data;
  readonly expressions: readonly {
    readonly expression: string;
    readonly value?: unknown;
    readonly undefined?: true;
    /** Not a JSON value in Python. */
    readonly other?: true;
    readonly error?: string;
  }[];
  readonly texts: readonly { readonly template: string; readonly text?: string; readonly error?: string }[];
}

export function readGoldens(): Goldens {
  // The file is ours and its shape is written beside it.
  return JSON.parse(readFileSync(new URL('./goldens.json', import.meta.url), 'utf8')) as Goldens;
}

export function scopeOf(data: Data): Scope {
  return { lookup: (name) => (Object.hasOwn(data, name) ? data[name] : undefined) };
}

/** The native value of one expression. */
export function value(expression: string, data: Data = {}, limits?: Limits): unknown {
  return evaluateNative(compileTemplate(`{{ ${expression} }}`), scopeOf(data), limits);
}

export function text(template: string, data: Data = {}, limits?: Limits): string {
  return renderText(compileTemplate(template), scopeOf(data), limits);
}

/** What a template raises, or null. */
export function raised(evaluate: () => unknown): Error | null {
  try {
    evaluate();
    return null;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
