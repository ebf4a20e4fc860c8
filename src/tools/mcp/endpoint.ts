/**
 * Where a tool server is (language 11.9): the task's own address, else by the name of the server an operator's
 * variable, the catalog, and last the one address for all.
 */
import { isMap, type JsonMap } from '../../../machines/json.ts';
import { FieldProblem, textOf } from '../fields.ts';
import type { ToolHost } from '../tool.ts';

export interface EndpointSources {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly defaultUrl: string | null;
  readonly catalogDocument: ToolHost['catalogDocument'];
}

/** Throws FieldProblem where nobody knows an address or it is no URL. */
export async function findEndpoint(fields: JsonMap, server: string, sources: EndpointSources): Promise<URL> {
  const text = filled(textOf(fields, 'endpoint', 'url', 'server_url', 'base_url')) ?? (await byName(server, sources));
  if (text === undefined) throw new FieldProblem(`no endpoint is known for the tool server '${server.slice(0, 100)}'`);
  if (!URL.canParse(text))
    throw new FieldProblem(`the endpoint of the tool server '${server.slice(0, 100)}' is no URL`);
  return new URL(text);
}

async function byName(
  server: string,
  { environment, defaultUrl, catalogDocument }: EndpointSources,
): Promise<string | undefined> {
  const named = filled(environment[endpointVariable(server)]);
  if (named !== undefined) return named;
  const document = /^[\w./-]+$/.test(server) ? await catalogDocument(`mcp/${server}`) : null;
  const isServer = document !== null && String(document['kind']).toLowerCase() === 'mcp';
  const spec = isServer && isMap(document['spec']) ? document['spec'] : {};
  return filled(textOf(spec, 'endpoint', 'url')) ?? filled(defaultUrl ?? undefined);
}

/** `my-tools` is asked for as `SVC_MCP_MY_TOOLS_ENDPOINT`. */
export function endpointVariable(server: string): string {
  return `SVC_MCP_${server.toUpperCase().replace(/[^A-Z0-9]/g, '_')}_ENDPOINT`;
}

function filled(text: string | undefined): string | undefined {
  const trimmed = text?.trim();
  return trimmed === '' ? undefined : trimmed;
}

/** `<base>/healthz`: the server itself, without the path of its protocol. */
export function healthUrl(endpoint: URL): URL {
  const url = new URL(endpoint);
  url.pathname = `${url.pathname.replace(/\/+$/, '').replace(/\/(?:mcp|sse)$/, '')}/healthz`;
  url.search = '';
  return url;
}
