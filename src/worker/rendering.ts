/**
 * Rendering that fetches. Templates are evaluated synchronously; when one needs a payload that is stored apart, the
 * evaluation is given up, the payload fetched, and the same template evaluated again. Each payload is fetched at most
 * once per command (language 10.4).
 */
import type { Json } from '../../machines/json.ts';
import type { Scope } from '../../machines/playbook/template/facade.ts';
import { NeedPayload } from '../../machines/playbook/values.ts';
import { ApiError } from '../client/errors.ts';
import type { ToolFailure } from '../tools/tool.ts';
import { MissingReference } from './keychain.ts';
import { engineFailure } from './outcome.ts';
import type { Renders } from './pipeline.ts';
import type { Templates } from './templates.ts';

export class PayloadCache {
  readonly #payloads = new Map<string, Json>();
  readonly #resolve: (ref: string) => Promise<Json>;

  constructor(resolve: (ref: string) => Promise<Json>) {
    this.#resolve = resolve;
  }

  /** What is here already; undefined where nobody asked yet. */
  readonly get = (ref: string): Json | undefined => this.#payloads.get(ref);

  /** Throws MissingReference for a reference that leads nowhere. */
  async fetch(ref: string): Promise<Json> {
    const known = this.#payloads.get(ref);
    if (known !== undefined) return known;
    try {
      const payload = await this.#resolve(ref);
      this.#payloads.set(ref, payload);
      return payload;
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) throw new MissingReference(`Result not found: ${ref}`);
      throw error;
    }
  }
}

export class Rendering implements Renders {
  readonly #templates: Templates;
  readonly #scope: Scope;
  readonly #payloads: PayloadCache;

  constructor(templates: Templates, scope: Scope, payloads: PayloadCache) {
    this.#templates = templates;
    this.#scope = scope;
    this.#payloads = payloads;
  }

  value(source: Json): Promise<Json> {
    return this.whole(() => this.#templates.value(source, this.#scope));
  }

  text(source: Json): Promise<Json> {
    return this.whole(() => this.#templates.text(source, this.#scope));
  }

  optionalText(source: Json): Promise<Json> {
    return this.whole(() => this.#templates.optionalText(source, this.#scope));
  }

  condition(when: string | boolean): Promise<boolean> {
    return this.whole(() => this.#templates.condition(when, this.#scope));
  }

  /** A payload by its reference, from the same cache as those that templates need. */
  payload(ref: string): Promise<Json> {
    return this.#payloads.fetch(ref);
  }

  /** Runs something that may throw NeedPayload until it has all it needs. */
  async whole<T>(render: () => T): Promise<T> {
    let last: string | null = null;
    for (;;) {
      try {
        return render();
      } catch (error) {
        if (!(error instanceof NeedPayload)) throw error;
        if (error.ref === last) throw new Error('a payload was asked for again right after it was fetched');
        last = error.ref;
        await this.#payloads.fetch(error.ref);
      }
    }
  }
}

/** The failure of a task whose templates could not be rendered (language 7.2). */
export function renderFailure(error: unknown): ToolFailure {
  const message = error instanceof Error ? error.message : 'the template cannot be rendered';
  if (error instanceof MissingReference) return engineFailure('missing_reference', 'MISSING_REFERENCE', message);
  if (error instanceof ApiError) return engineFailure('storage_access', `HTTP_${error.status}`, message);
  if (error instanceof Error && error.name === 'TransportError')
    return engineFailure('connection', 'CONN_ERROR', message);
  return engineFailure('transform', codeOf(error), message);
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'TEMPLATE_ERROR';
}
