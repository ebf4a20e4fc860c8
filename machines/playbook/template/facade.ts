/**
 * Values with members of their own making: a step value with its `.data` accessor, a stored result that is fetched
 * only when something beyond its summary is needed, `event` with its aliases. Everything else in a template is JSON.
 */
export abstract class Facade {
  /** The member, or undefined. May throw (a keychain entry that is not available, a payload that must be fetched first). */
  abstract member(key: string | number): unknown;
  /** The JSON value it stands for; what filters, operators and tool inputs get. May throw like `member`. */
  abstract plain(): unknown;
  /** Equality of its own (`event.name == 'step.done'`); undefined means: compare `plain()`. */
  equals(_other: unknown): boolean | undefined {
    return undefined;
  }
}

/** Where a template finds its names. Reserved roots, locals, `ctx`, steps and inputs are layered behind it. */
export interface Scope {
  /** The value of a root name, or undefined. Values are JSON or a Facade. */
  lookup(name: string): unknown;
}
