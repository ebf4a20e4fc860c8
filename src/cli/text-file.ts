/** Text that a person named on the command line, read with errors that name the file. */
import { readFile } from 'node:fs/promises';
import { UsageError } from './command.ts';

/** Throws UsageError when the file cannot be read or is not UTF-8. */
export async function textOfFile(file: string): Promise<string> {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(await readFile(file));
  } catch (error) {
    if (error instanceof TypeError) throw new UsageError(`${file} is not UTF-8 text`);
    const code = error instanceof Error && 'code' in error ? error.code : null;
    throw new UsageError(code === 'ENOENT' ? `there is no file ${file}` : `${file} cannot be read (${String(code)})`);
  }
}
