/** A vault that hides nothing but minds its bindings: a value opens only for the row it was sealed for. */
import { DomainError } from '../../actors/errors.ts';
import type { Vault } from '../../actors/vault.ts';
import type { Json } from '../../machines/json.ts';

export const plainVault: Vault = {
  activeKid: 'k1',
  seal: (binding, value) => `cb1.${JSON.stringify([binding, value])}`,
  open(binding, sealed) {
    // Written by `seal` above.
    const [own, value] = JSON.parse(sealed.slice(4)) as [unknown, Json];
    if (JSON.stringify(own) === JSON.stringify(binding)) return value;
    throw new DomainError('decrypt_failed', 'A stored value cannot be opened with key k1');
  },
  rewrap: () => null,
};
