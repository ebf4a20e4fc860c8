/**
 * What can be said of a guard without knowing any data: the event and the status of the outcome are known, everything
 * else is not. A guard that can be evaluated all the same is decided; one that asks for more is not.
 */
import type { EngineLimits } from '../../machines/execution/stage.ts';
import type { Condition } from '../../machines/playbook/template/compiled.ts';
import { Facade, type Scope } from '../../machines/playbook/template/facade.ts';
import { holds } from '../../machines/playbook/template/render.ts';

class Unknown extends Error {}

/** Null: it depends on data. `scope` is that of the guard. */
export function verdictOn(condition: Condition, scope: Scope, limits: EngineLimits): boolean | null {
  try {
    return holds(condition, new KnownScope(scope), limits.template);
  } catch {
    // Unknown data, or a guard that raises, which is a matter of data as well.
    return null;
  }
}

const KNOWN_MEMBERS: Readonly<Record<string, readonly string[]>> = { event: ['name', 'step'], output: ['status'] };

class KnownScope implements Scope {
  readonly #scope: Scope;

  constructor(scope: Scope) {
    this.#scope = scope;
  }

  lookup(name: string): unknown {
    const members = KNOWN_MEMBERS[name];
    const value = members === undefined ? undefined : this.#scope.lookup(name);
    if (members === undefined || !(value instanceof Facade)) throw new Unknown();
    return new Partly(value, members);
  }
}

/** A value of which some members are known. */
class Partly extends Facade {
  readonly #whole: Facade;
  readonly #known: readonly string[];

  constructor(whole: Facade, known: readonly string[]) {
    super();
    this.#whole = whole;
    this.#known = known;
  }

  member(key: string | number): unknown {
    if (!this.#known.includes(String(key))) throw new Unknown();
    return this.#whole.member(key);
  }

  plain(): never {
    throw new Unknown();
  }
}
