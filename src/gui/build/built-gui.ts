/**
 * Where the built GUI is, and how it gets there: a folder named for a hash of its sources, so that a stale build cannot
 * be served and a present one is found at once. The build goes to a folder of its own and is renamed when complete:
 * two processes that build at once both succeed, and a killed one leaves nothing that looks finished.
 */
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { GUI_FOLDER } from './settings.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const BUILD_SCRIPT = fileURLToPath(new URL('./build-gui.ts', import.meta.url));
const BUILD_WITHIN_MS = 120_000;

/** The folder of the project comes first: what an image was built with is found there. */
export function guiFolders(dataDir: string): readonly string[] {
  return [join(ROOT, 'node_modules/.cache/callboard-gui'), resolve(dataDir, 'gui')];
}

/**
 * The folder of the built GUI; builds it when it is in none of `folders`, into the first one that can be written.
 * Throws when none can, or with the last words of the build.
 */
export async function builtGui(folders: readonly string[], signal?: AbortSignal): Promise<string> {
  const name = await sourceHash();
  for (const folder of folders) {
    if (await exists(join(folder, name, 'index.html'))) return join(folder, name);
  }
  const folder = await firstWritable(folders);
  const target = join(folder, name);
  const draft = await mkdtemp(join(folder, 'draft-'));
  try {
    await runBuild(draft, signal);
    await rename(draft, target).catch(async (error: unknown) => {
      // Somebody else was faster with the same sources, so the result is the same.
      if (!(await exists(join(target, 'index.html')))) throw error;
    });
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  await removeOthers(folder, name);
  return target;
}

/** Every file of the built GUI by its path below the folder, compressed copies included. */
export type GuiFiles = ReadonlyMap<string, Buffer>;

export async function readGuiFiles(folder: string): Promise<GuiFiles> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
  return new Map(await Promise.all(files.map(async (file) => [relative(folder, file), await readFile(file)] as const)));
}

/** Of everything the build reads: the sources, and the lock file for the packages. */
async function sourceHash(): Promise<string> {
  const hash = createHash('sha256');
  const entries = await readdir(GUI_FOLDER, { recursive: true, withFileTypes: true });
  const files = entries.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
  for (const file of [...files.sort(), join(ROOT, 'package-lock.json')]) {
    hash.update(`${relative(ROOT, file)}\0`).update(await readFile(file));
  }
  return hash.digest('hex').slice(0, 20);
}

async function firstWritable(folders: readonly string[]): Promise<string> {
  let reason: unknown = null;
  for (const folder of folders) {
    try {
      await mkdir(folder, { recursive: true });
      const probe = await mkdtemp(join(folder, 'draft-'));
      await rm(probe, { recursive: true });
      return folder;
    } catch (error) {
      reason = error;
    }
  }
  throw new Error(`The GUI has no folder to be built in; tried ${folders.join(', ')}`, { cause: reason });
}

async function runBuild(out: string, signal: AbortSignal | undefined): Promise<void> {
  const limit = AbortSignal.timeout(BUILD_WITHIN_MS);
  const child = spawn(process.execPath, [BUILD_SCRIPT, out], {
    cwd: ROOT,
    stdio: ['ignore', 'ignore', 'pipe'],
    signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
  });
  let words = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    words = (words + chunk).slice(-4000);
  });
  const { promise, resolve: ended, reject } = Promise.withResolvers<number | null>();
  child.on('error', reject).on('close', ended);
  const code = await promise;
  if (code !== 0) throw new Error(`The GUI could not be built: ${words.trim() || `exit code ${code}`}`);
}

/** Builds of other sources, which a server that serves one has in memory, and drafts that nobody can still be writing. */
async function removeOthers(folder: string, name: string): Promise<void> {
  for (const each of await readdir(folder)) {
    if (each === name) continue;
    const path = join(folder, each);
    const found = each.startsWith('draft-') ? await stat(path).catch(() => null) : null;
    const isBeingWritten = found !== null && Date.now() - found.mtimeMs < 2 * BUILD_WITHIN_MS;
    if (!isBeingWritten) await rm(path, { recursive: true, force: true });
  }
}

async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}

const [, script] = process.argv;
if (script !== undefined && resolve(script) === import.meta.filename) {
  process.stdout.write(`${await builtGui(guiFolders(join(ROOT, '.callboard')))}\n`);
}
