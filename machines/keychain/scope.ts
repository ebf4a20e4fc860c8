/**
 * Who shares a keychain entry, and the key that follows from it (api 4.4). The key is the whole access rule: whoever
 * computes another key reads another entry, so writing, reading and deleting must resolve it alike.
 */

export type EntryScope = 'local' | 'global' | 'shared';

/** What an entry is looked up by. `executionId` is the one who asks; `rootExecutionId` the root of its tree. */
export interface EntryAddress {
  readonly name: string;
  readonly catalogId: number;
  readonly scope: EntryScope;
  /** Null only for `global`. */
  readonly executionId: number | null;
  /** Null only where `scope` is not `shared`. */
  readonly rootExecutionId: number | null;
}

/** The primary key of the entry. Throws RangeError for `local` and `shared` without their execution. */
export function cacheKeyOf({ name, catalogId, scope, executionId, rootExecutionId }: EntryAddress): string {
  switch (scope) {
    case 'global':
      return `${name}:${catalogId}:global`;
    case 'local':
      return `${name}:${catalogId}:${present(executionId)}`;
    case 'shared':
      return `${name}:${catalogId}:shared:${present(rootExecutionId)}`;
  }
}

/** The scope as a document or request spells it; `catalog` is another word for `global`. Null for any other word. */
export function readScope(word: string): EntryScope | null {
  if (word === 'catalog') return 'global';
  return word === 'local' || word === 'global' || word === 'shared' ? word : null;
}

function present(executionId: number | null): number {
  if (executionId === null) throw new RangeError('an entry of this scope belongs to an execution');
  return executionId;
}
