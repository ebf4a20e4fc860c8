/** Cursors of lists: the last path shown, in a form that nobody is tempted to build. */
import { readCatalogPath } from '../../machines/playbook/catalog-path.ts';
import { RPC, RpcError } from './message.ts';

export function cursorAfter(path: string): string {
  return Buffer.from(path, 'utf8').toString('base64url');
}

/** The path a cursor stands for. Throws RpcError for one this server never gave. */
export function readCursor(cursor: string | null): string | null {
  if (cursor === null) return null;
  const path = cursor.length > 400 ? null : readCatalogPath(Buffer.from(cursor, 'base64url').toString('utf8'));
  if (path !== null) return path;
  throw new RpcError(RPC.params, 'cursor is not one of this server');
}
