/** Values that workers keep apart from the log (language 10.3), in memory for one simulation. */
import type { MemoryStore } from '../../actors/memory/memory-store.ts';
import type { Clock } from '../../actors/ports.ts';
import type { ResultStore } from '../../actors/result-service.ts';
import type { StoredResult } from '../../actors/services.ts';

interface Kept {
  readonly row: StoredResult;
  readonly json: string;
  readonly executionId: number;
}

/** What engine and workers store is one set: `payload` of the store finds both. */
export function withResults(
  store: MemoryStore,
  clock: Clock,
): { readonly store: MemoryStore; readonly results: ResultStore } {
  const kept = new Map<string, Kept>();
  const refuse = (): never => {
    throw new Error('results of a simulation are only stored and read');
  };
  const results: ResultStore = {
    executionStatus: async (executionId) => (await store.execution(executionId))?.status ?? null,
    async put(row, data) {
      const { executionId, ref, name, scope, bytes, sha256, summary, expiresAt } = row;
      const same = [...kept.values()].find(
        (each) => each.executionId === executionId && each.row.name === name && each.row.sha256 === sha256,
      );
      if (same !== undefined) return same.row;
      const createdAt = new Date(clock.now()).toISOString();
      const stored = {
        ref,
        name,
        store: row.store,
        scope,
        bytes,
        sha256,
        summary: summary ?? {},
        createdAt,
        expiresAt,
      };
      kept.set(ref, { row: stored, json: new TextDecoder().decode(data), executionId });
      return stored;
    },
    async load(_executionId, ref) {
      const found = kept.get(ref);
      if (found !== undefined) return { data: new TextEncoder().encode(found.json), sha256: found.row.sha256 };
      const payload = await store.payload(ref);
      return payload === undefined ? null : { data: new TextEncoder().encode(JSON.stringify(payload)), sha256: '' };
    },
    list: refuse,
    newest: refuse,
    remove: refuse,
  };
  return {
    results,
    store: {
      ...store,
      payload: async (ref) => {
        const found = kept.get(ref);
        // The text was made by JSON.stringify.
        return found === undefined ? store.payload(ref) : JSON.parse(found.json);
      },
    },
  };
}
