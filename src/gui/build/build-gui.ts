/**
 * Builds the GUI into a folder: Vite, then a compressed copy beside each text asset. Run as a process of its own by
 * built-gui.ts, because a bundler on the event loop of a server would be felt by everyone who is served.
 *
 *   node src/gui/build/build-gui.ts FOLDER
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { build } from 'vite';
import { buildSettings } from './settings.ts';

const TEXT = /\.(js|css|html|svg)$/;

export async function buildGui(out: string): Promise<void> {
  await build(buildSettings(out));
  const files = await readdir(out, { recursive: true, withFileTypes: true });
  await Promise.all(
    files
      .filter((each) => each.isFile() && TEXT.test(each.name))
      .map((each) => compress(join(each.parentPath, each.name))),
  );
}

async function compress(file: string): Promise<void> {
  const bytes = await readFile(file);
  const options = { params: { [constants.BROTLI_PARAM_QUALITY]: 9, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } };
  await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, options));
  await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: 9 }));
}

const [, script, out] = process.argv;
if (script !== undefined && resolve(script) === import.meta.filename && out !== undefined) await buildGui(out);
