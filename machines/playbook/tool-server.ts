/**
 * What a catalog entry of kind `mcp` says (language 2.6): where its server is, which tools it is known to have, which
 * playbook runs an action on it. The service leaves everything else in `spec` to these playbooks.
 */
import { dump } from 'js-yaml';
import { canonicalJson } from '../canonical-json.ts';
import { isMap, type JsonMap } from '../json.ts';

export interface ToolServerSpec {
  readonly spec: JsonMap;
  readonly metadata: JsonMap;
  readonly endpoint: string | null;
  readonly tools: readonly JsonMap[];
}

/** Nothing of it is required, and what has another form counts as absent. */
export function readToolServer(payload: JsonMap): ToolServerSpec {
  const spec = mapAt(payload, 'spec');
  const { tools } = spec;
  return {
    spec,
    metadata: mapAt(payload, 'metadata'),
    endpoint: textAt(spec, 'endpoint') ?? textAt(spec, 'url'),
    tools: Array.isArray(tools) ? tools.filter(isMap) : [],
  };
}

/** The path of the playbook behind an action; null where the entry declares none. */
export function lifecycleAgent(spec: JsonMap, action: string): string | null {
  return textAt(mapAt(spec, 'lifecycle'), action);
}

/** Servers do not promise an order, so another order is no change. */
export function haveSameTools(some: readonly JsonMap[], others: readonly JsonMap[]): boolean {
  const texts = (tools: readonly JsonMap[]) => tools.map(canonicalJson).sort();
  return JSON.stringify(texts(some)) === JSON.stringify(texts(others));
}

/** The document with these tools, as YAML; comments of the old text are not in it. */
export function withTools(payload: JsonMap, tools: readonly JsonMap[]): string {
  return dump({ ...payload, spec: { ...mapAt(payload, 'spec'), tools } }, { lineWidth: -1, noRefs: true });
}

function mapAt(map: JsonMap, key: string): JsonMap {
  const value = Object.hasOwn(map, key) ? map[key] : undefined;
  return isMap(value) ? value : {};
}

function textAt(map: JsonMap, key: string): string | null {
  const value = Object.hasOwn(map, key) ? map[key] : undefined;
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
}
