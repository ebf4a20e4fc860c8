/**
 * The port behind which secrets are sealed. A sealed text opens only for the row it was made for, so every caller says
 * which row that is; nothing in this folder ever sees a key.
 */
import type { Json } from '../machines/json.ts';

/** The row a sealed value belongs to (api 8.1). A value copied to another table, row, name or scope does not open. */
export interface Binding {
  /** Table, and the column after a dot where a row holds more than one sealed value. */
  readonly table: string;
  /** Credential id, or cache key. */
  readonly row: string;
  readonly name: string;
  readonly scope: string;
}

export interface Vault {
  /** Key id that new values are sealed with. */
  readonly activeKid: string;
  seal(binding: Binding, value: Json): string;
  /** Throws DomainError `decrypt_failed`, whose sentence names the key id and nothing else. */
  open(binding: Binding, sealed: string): Json;
  /** The same value under the active key, for rotation; null when it is there already. Throws `decrypt_failed`. */
  rewrap(binding: Binding, sealed: string): string | null;
}
