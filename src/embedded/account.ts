/**
 * Under which operating system account PostgreSQL runs. It refuses to run as root, so a root process lends it the
 * identity of an account that already exists; no account is ever created. The account must have an entry in the user
 * database, or `initdb` fails to look itself up.
 */
import { readFileSync, type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

const PREFERRED = ['postgres', 'nobody', 'daemon'];

/** Null: run as ourselves. `existing` is a data directory whose owner is kept. Throws when root finds no account to use. */
export function chooseAccount(existing: string | null): Account | null {
  if (process.getuid?.() !== 0) return null;
  const owner = existing === null ? null : statSync(existing);
  if (owner !== null && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid };
  const accounts = readAccounts();
  for (const name of PREFERRED) {
    const account = accounts.get(name);
    if (account !== undefined && account.uid !== 0) return account;
  }
  throw new Error(
    'PostgreSQL cannot run as root and there is no account named postgres, nobody or daemon to run it as; ' +
      'start the service as another user or set SVC_DATABASE_URL',
  );
}

/** True when the account may enter every directory on the way to `path` and read what lies there. */
export function reachable(path: string, account: Account | null): boolean {
  if (account === null) return true;
  let current = path;
  for (;;) {
    if (!permits(statSync(current), account, current === path ? 5 : 1)) return false;
    const parent = dirname(current);
    if (parent === current) return true;
    current = parent;
  }
}

function permits(stats: Stats, account: Account, bits: number): boolean {
  if (stats.uid === account.uid) return (stats.mode & (bits << 6)) === bits << 6;
  if (stats.gid === account.gid) return (stats.mode & (bits << 3)) === bits << 3;
  return (stats.mode & bits) === bits;
}

function readAccounts(): ReadonlyMap<string, Account> {
  const accounts = new Map<string, Account>();
  for (const line of readFileSync('/etc/passwd', 'utf8').split('\n')) {
    const [name, , uid, gid] = line.split(':');
    if (name !== undefined && uid !== undefined && gid !== undefined) {
      accounts.set(name, { uid: Number(uid), gid: Number(gid) });
    }
  }
  return accounts;
}
