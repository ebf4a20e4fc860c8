/** Which kind a document is stored under (language 2.6). */

export type StoredKind = 'playbook' | 'agent' | 'mcp' | 'credential' | 'memory' | 'subscription';

const SPELLINGS: ReadonlyMap<string, StoredKind> = new Map<string, StoredKind>(
  Object.entries({
    playbook: 'playbook',
    playbooks: 'playbook',
    agent: 'agent',
    agents: 'agent',
    mcp: 'mcp',
    modelcontextprotocol: 'mcp',
    credential: 'credential',
    credentials: 'credential',
    secret: 'credential',
    secrets: 'credential',
    memory: 'memory',
    subscription: 'subscription',
  } as const),
);

/** The stored kind a spelling means, in any case; null for an unknown one. */
export function readStoredKind(spelling: string): StoredKind | null {
  const key = spelling.trim().toLowerCase();
  return SPELLINGS.get(key) ?? null;
}

/**
 * The document's own kind wins over the request's; only a playbook registered as an agent is stored as an agent.
 * Null when neither names a known kind, or the document names one that is unknown.
 */
export function storedKindOf(documentKind: string | null, resourceType: string | null): StoredKind | null {
  const hint = resourceType === null ? null : readStoredKind(resourceType);
  if (documentKind === null) return hint;
  const own = readStoredKind(documentKind);
  return own === 'playbook' && hint === 'agent' ? 'agent' : own;
}

/** True for kinds an execution can be started from. */
export function isExecutable(kind: string): kind is 'playbook' | 'agent' {
  return kind === 'playbook' || kind === 'agent';
}
