/** `npm run generate`: writes the generated files where they differ. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { generatedFiles } from './generated-files.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));

for (const { path, content } of generatedFiles()) {
  mkdirSync(dirname(root + path), { recursive: true });
  if (textOf(root + path) === content) continue;
  writeFileSync(root + path, content);
  console.log(`wrote ${path}`);
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}
