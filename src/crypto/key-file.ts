/**
 * The key that a server on one machine makes for itself, in `encryption.key` of its data folder. It is linked into
 * place, never written in place: of two servers that start at once, both end up with the key of the first.
 */
import { randomBytes } from 'node:crypto';
import { chmod, link, mkdir, open, readFile, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';

const FILE = 'encryption.key';

export interface KeyFile {
  readonly key: Uint8Array;
  readonly file: string;
  readonly made: boolean;
}

export function keyFileOf(dataDir: string): string {
  return join(dataDir, FILE);
}

/** The key of the folder, or null when there is no file. Takes away the rights of other users. Throws when the text is no key. */
export async function readKeyFile(dataDir: string): Promise<KeyFile | null> {
  const file = keyFileOf(dataDir);
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    if (isCode(error, 'ENOENT')) return null;
    throw error;
  });
  if (text === null) return null;
  const key = Buffer.from(text.trim(), 'base64');
  if (key.length !== 32 || key.toString('base64') !== text.trim()) {
    throw new Error(`${file} does not hold one key of 32 bytes in base64`);
  }
  if (((await stat(file)).mode & 0o077) !== 0) await chmod(file, 0o600);
  return { key, file, made: false };
}

/** Makes the key file, readable by its owner only, or returns the one that another process made meanwhile. */
export async function makeKeyFile(dataDir: string): Promise<KeyFile> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const file = keyFileOf(dataDir);
  const draft = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`;
  const key = randomBytes(32);
  try {
    await writeDurably(draft, `${key.toString('base64')}\n`);
    await link(draft, file);
  } catch (error) {
    const other = isCode(error, 'EEXIST') ? await readKeyFile(dataDir) : null;
    if (other === null) throw error;
    return other;
  } finally {
    await unlink(draft).catch(() => {});
  }
  return { key, file, made: true };
}

async function writeDurably(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    await handle.sync();
  } finally {
    await handle.close();
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
