/** What running a command needs of the template language, so that it can be given with limits and clock already set. */
import type { Json } from '../../machines/json.ts';
import type { Scope } from '../../machines/playbook/template/facade.ts';

export interface Templates {
  /** Value fields: a single expression keeps its native type (language 8.5). Maps and lists are rendered throughout. */
  value(source: Json, scope: Scope): Json;
  /** Text fields: every string at or below the value renders to a string. */
  text(source: Json, scope: Scope): Json;
  /** Like text, but an expression that yields null gives null: what it stands for is left out. */
  optionalText(source: Json, scope: Scope): Json;
  /** A condition with or without braces (language 8.8). */
  condition(source: string | boolean, scope: Scope): boolean;
}
