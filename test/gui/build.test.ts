/** The build: within its budgets, built once for the same sources, and safe to ask for twice at the same time. */
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { builtGui, readGuiFiles } from '../../src/gui/build/built-gui.ts';

const KIB = 1024;
let folder: string;
let built: readonly string[];
let files: Awaited<ReturnType<typeof readGuiFiles>>;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'callboard-build-'));
  // The first folder cannot be written by anyone: it would be below a file.
  const folders = [join('/dev/null', 'gui'), join(folder, 'gui')];
  built = await Promise.all([builtGui(folders), builtGui(folders)]);
  files = await readGuiFiles(built[0] ?? '');
});

afterAll(() => rm(folder, { recursive: true, force: true }));

test('two builds at once give the same complete folder, and leave nothing else', async () => {
  expect(built[0]).toBe(built[1]);
  expect(await readdir(join(folder, 'gui'))).toEqual([built[0]?.split('/').at(-1)]);
});

test('what is built already is found, not built again', async () => {
  const startedAt = performance.now();
  expect(await builtGui([join(folder, 'gui')])).toBe(built[0]);
  expect(performance.now() - startedAt).toBeLessThan(500);
});

test('without a folder that can be written the reason is told', async () => {
  await expect(builtGui(['/dev/null/gui'])).rejects.toThrow('has no folder to be built in; tried /dev/null/gui');
});

describe('sizes, compressed by gzip', () => {
  test('the first page needs at most 40 KiB of scripts and 12 KiB of styles', () => {
    const first = [...closureOf('index.html'), ...closureOf(chunk('overview'))];
    expect(sizeOf(new Set(first))).toBeLessThan(40 * KIB);
    expect(sizeOf(named(/\.css$/))).toBeLessThan(12 * KIB);
  });

  test('everything a view of an execution adds, with graph and statechart, stays below 40 KiB', () => {
    const first = closureOf('index.html');
    const more = [...closureOf(chunk('execution'))].filter((each) => !first.has(each));
    expect(sizeOf(new Set(more))).toBeLessThan(40 * KIB);
  });

  test('the editor stays below 180 KiB', () => {
    const first = closureOf('index.html');
    const more = [...closureOf(chunk('editor'))].filter((each) => !first.has(each));
    expect(sizeOf(new Set(more))).toBeLessThan(180 * KIB);
  });
});

test('the page names no other origin and carries no script of its own', async () => {
  const page = await readFile(join(built[0] ?? '', 'index.html'), 'utf8');
  expect(page).not.toMatch(/https?:\/\//);
  expect(page).not.toMatch(/<script(?![^>]*\bsrc=)/);
  expect(page).not.toContain('<style');
});

/** A file and all scripts it imports at once. */
function closureOf(name: string): ReadonlySet<string> {
  const found = new Set<string>();
  const visit = (each: string): void => {
    if (found.has(each)) return;
    if (each.endsWith('.js')) found.add(each);
    const text = files.get(each)?.toString() ?? '';
    const imported = each.endsWith('.html')
      ? [...text.matchAll(/(?:src|href)="\/ui\/(assets\/[^"]+\.js)"/g)].map(([, path = '']) => path)
      : [...text.matchAll(/(?:from|import)\s*["'`]\.\/([^"'`]+\.js)["'`]/g)].map(([, path = '']) => `assets/${path}`);
    for (const next of imported) visit(next);
  };
  visit(name);
  return found;
}

function chunk(name: string): string {
  const found = [...files.keys()].find((each) => new RegExp(`^assets/${name}-[^.]+\\.js$`).test(each));
  if (found === undefined) throw new Error(`There is no chunk ${name}`);
  return found;
}

function named(pattern: RegExp): ReadonlySet<string> {
  return new Set([...files.keys()].filter((each) => pattern.test(each)));
}

function sizeOf(names: ReadonlySet<string>): number {
  const sizes = [...names].map((each) => files.get(`${each}.gz`)?.length ?? Number.POSITIVE_INFINITY);
  return sizes.reduce((sum, each) => sum + each, 0);
}
