import { afterEach, describe, expect, test } from 'vitest';
import { readCatalogDocument } from '../../machines/playbook/catalog-document.ts';
import { createDocumentReader, type DocumentReader } from '../../src/documents/document-reader.ts';

let reader: DocumentReader;
afterEach(() => reader.close());

const options = { path: null, resourceType: null };

describe('the document reader', () => {
  test('gives the same reading on the spot and from its thread', async () => {
    reader = createDocumentReader({ inlineMaxChars: 0 });
    for (const text of [playbook(1), playbook(50), 'a: [', '']) {
      expect(await reader.read(text, options)).toEqual(readCatalogDocument(text, options));
    }
  });

  test('IN-12 leaves the event loop free while it reads a large text', async () => {
    reader = createDocumentReader();
    await reader.read(playbook(900), options);
    const reading = reader.read(playbook(900), options);
    let turns = 0;
    let done = false;
    void reading.then(() => {
      done = true;
    });
    while (!done) {
      await new Promise((resolve) => setImmediate(resolve));
      turns += 1;
    }
    expect((await reading).ok).toBe(true);
    expect(turns).toBeGreaterThan(10);
  });

  test('IN-09 reads what grows by aliases in the thread, and refuses what grows too far', async () => {
    reader = createDocumentReader();
    const bomb = `a: &a [x, x, x, x, x, x, x, x, x, x]\n${'bcdefghij'
      .split('')
      .map((key, index) => `${key}: &${key} [${Array(10).fill(`*${'abcdefghi'[index]}`).join(', ')}]`)
      .join('\n')}\n`;
    expect(await reader.read(bomb, options)).toMatchObject({
      ok: false,
      errors: [{ code: 'yaml_syntax', message: expect.stringContaining('aliases expand') }],
    });
  });

  test('gives up a text that takes too long, and reads the next one', async () => {
    reader = createDocumentReader({ inlineMaxChars: 10, timeLimitMs: 0 });
    expect(await reader.read(playbook(900), options)).toMatchObject({
      ok: false,
      errors: [{ code: 'yaml_syntax', message: 'Document: the document takes too long to read (line 1)' }],
    });
    expect((await reader.read('a: 1', options)).ok).toBe(false);
  });

  test('refuses more than it can queue, and everything after its end', async () => {
    reader = createDocumentReader({ inlineMaxChars: 0, waitingMax: 2 });
    const calls = Array.from({ length: 5 }, () => reader.read(playbook(1), options));
    const settled = await Promise.allSettled(calls);
    expect(settled.map((each) => each.status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'rejected']);
    const waiting = expect(reader.read(playbook(1), options)).rejects.toMatchObject({ name: 'UnavailableError' });
    await reader.close();
    await waiting;
    await expect(reader.read(playbook(1), options)).rejects.toMatchObject({ name: 'UnavailableError' });
  });
});

function playbook(steps: number): string {
  const body = Array.from(
    { length: steps },
    (_, index) => `  - step: s${index}\n    tool: { kind: noop, message: "{{ workload.a }} ${'x'.repeat(100)}" }\n`,
  );
  return `apiVersion: callboard/v2\nkind: Playbook\nmetadata: { name: large }\nworkflow:\n${body.join('')}`;
}
