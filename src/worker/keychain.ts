/**
 * `keychain` in the templates of a worker (language 12.4). This version resolves no entries, so every field of every
 * entry fails the try; `default()` cannot hide it, because the lookup itself throws.
 */
import { Facade } from '../../machines/playbook/template/facade.ts';

/** Fails the try with kind `missing_reference`. */
export class MissingReference extends Error {
  override readonly name = 'MissingReference';
}

export class KeychainRoot extends Facade {
  member(key: string | number): Facade {
    return new KeychainEntry(String(key));
  }

  plain(): never {
    throw new MissingReference('the keychain cannot be read as a whole');
  }
}

class KeychainEntry extends Facade {
  readonly #name: string;

  constructor(name: string) {
    super();
    this.#name = name;
  }

  member(): never {
    throw new MissingReference(`keychain entry '${this.#name}' is not available (not_found)`);
  }

  plain(): never {
    return this.member();
  }
}
