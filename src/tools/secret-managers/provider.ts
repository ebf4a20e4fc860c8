/**
 * A secret manager of a cloud (language 11.14, 12.3): a path and a credential in, the text of one secret out. What goes
 * wrong is told by SecretUnavailable, in a sentence that holds no value, header or body of the exchange.
 */
import type { JsonMap } from '../../../machines/json.ts';
import type { ErrorKind } from '../errors.ts';
import type { ResolvedAuth } from '../tool.ts';

export type ProviderId = 'gcp' | 'aws' | 'azure';

export interface SecretRequest {
  /** As the provider names its secrets; may hold a version. */
  readonly path: string;
  /** Of the path when null, else the newest. */
  readonly version: string | null;
  readonly auth: ResolvedAuth | null;
  /** Inputs of the execution, for `{type: gcp_adc}`. */
  readonly workload: () => Promise<JsonMap>;
}

export interface SecretManager {
  /** Throws SecretUnavailable, FieldProblem (what was asked for cannot be asked), or the reason of the signal. */
  read(request: SecretRequest, signal: AbortSignal): Promise<string>;
}

/** The secret could not be had. `kind` and `code` are those of language 7.4. */
export class SecretUnavailable extends Error {
  override readonly name = 'SecretUnavailable';
  readonly kind: ErrorKind;
  readonly code: string;
  constructor(kind: ErrorKind, code: string, message: string) {
    super(message);
    this.kind = kind;
    this.code = code;
  }
}

/** A secret may be any bytes: UTF-8 is that text, anything else stays base64. */
export function textOfBytes(base64: string): string {
  const bytes = Buffer.from(base64, 'base64');
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return bytes.toString('base64');
  }
}
