/** Files that a person named on the command line, read and written with errors that name the file. */
import { createReadStream } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { UsageError } from './command.ts';

/** Some files have no end (`/dev/zero`, a pipe that nobody closes the tap of). */
const BYTES_MAX = 256 * 1024 * 1024;

/** Throws UsageError when the file cannot be read, is too large or is not UTF-8. */
export async function textOfFile(file: string): Promise<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let text = '';
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(file)) {
      bytes += chunk.length;
      if (bytes > BYTES_MAX) throw new UsageError(`${file} is larger than ${BYTES_MAX} bytes`);
      text += decoder.decode(chunk, { stream: true });
    }
    return text + decoder.decode();
  } catch (error) {
    if (error instanceof UsageError) throw error;
    if (error instanceof TypeError) throw new UsageError(`${file} is not UTF-8 text`);
    const code = error instanceof Error && 'code' in error ? error.code : null;
    if (code === 'ENOENT') throw new UsageError(`there is no file ${file}`);
    if (code === 'EISDIR') throw new UsageError(`${file} is a folder, not a file`);
    throw new UsageError(`${file} cannot be read (${String(code)})`);
  }
}

/** Throws UsageError when the file cannot be written. */
export async function writeTextFile(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : null;
    throw new UsageError(`${file} cannot be written (${String(code)})`, { cause: error });
  }
}
