/** The version of this build, from its package file. */
import { readFileSync } from 'node:fs';

export function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  // Our own package file has a version.
  return (JSON.parse(text) as { version: string }).version;
}
