/**
 * Playbooks of children, found in files: those that were named, and whatever lies beside the playbook that calls them. The
 * folder is read when a child is first asked for; files that are no playbooks are passed over.
 */
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { DocumentAnswer, DocumentQuery } from '../../machines/simulation.ts';
import type { Library } from '../simulate/simulated-catalog.ts';
import { readPlaybookFile } from './playbook-file.ts';

/** Ids of files count from here, above the one of the playbook itself. */
const IDS_FROM = 100;

/** `file` is the calling playbook, `named` are further files. */
export function fileLibrary(file: string, named: readonly string[]): Library {
  let index: Promise<ReadonlyMap<string, Found>> | null = null;
  return async (query) => {
    index ??= indexOf(file, named);
    return answerOf(await index, query, dirname(file));
  };
}

interface Found {
  readonly content: string;
  readonly path: string;
  readonly version: number;
  readonly catalogId: number;
}

function answerOf(index: ReadonlyMap<string, Found>, query: DocumentQuery, folder: string): DocumentAnswer {
  const found = query.path === undefined ? undefined : index.get(query.path);
  if (found !== undefined) return { found };
  const target = query.path ?? `catalog_id=${query.catalogId}`;
  const looked = `no playbook in ${folder} or named by --with has this path`;
  return { refused: { code: 'not_found', message: `Executable catalog entry not found: ${target} (${looked})` } };
}

async function indexOf(file: string, named: readonly string[]): Promise<ReadonlyMap<string, Found>> {
  const folder = dirname(file);
  const beside = (await readdir(folder)).filter((name) => /\.ya?ml$/.test(name)).sort();
  const found = new Map<string, Found>();
  // What was named comes last, so that it wins over what merely lies there.
  for (const each of [...beside.map((name) => join(folder, name)), ...named]) {
    const { text, parsed } = await readPlaybookFile(each);
    if (!parsed.ok) continue;
    const { path } = parsed.playbook;
    found.set(path, { content: text, path, version: 1, catalogId: IDS_FROM + found.size });
  }
  return found;
}
