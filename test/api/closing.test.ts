/** How a server ends: in reverse order, each part within its time. */
import { describe, expect, test } from 'vitest';
import { Closing } from '../../src/host/closing.ts';

function closing(withinMs = 15_000) {
  const warnings: unknown[] = [];
  const sut = new Closing({ warn: (_message, fields) => warnings.push(fields?.['part']) }, withinMs);
  return { sut, warnings };
}

describe('the parts of a server', () => {
  test('end in the reverse order, one after the other, once', async () => {
    const { sut, warnings } = closing();
    const ended: string[] = [];
    sut.add('first', () => {
      ended.push('first');
    });
    sut.add('second', async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      ended.push('second');
    });
    await Promise.all([sut.stop(), sut.stop()]);
    expect(ended).toEqual(['second', 'first']);
    expect(warnings).toEqual([]);
  });

  test('that hang are left, named, and hold up nobody else', async () => {
    const { sut, warnings } = closing(30);
    const ended: string[] = [];
    sut.add('first', () => {
      ended.push('first');
    });
    sut.add('hanging', () => new Promise(() => {}));
    sut.add('failing late', () => new Promise((_, reject) => setTimeout(() => reject(new Error('too late')), 60)));
    await sut.stop();
    expect(ended).toEqual(['first']);
    expect(warnings).toEqual(['failing late', 'hanging']);
    // A failure that nobody waits for any more must not end the process.
    await new Promise((resolve) => setTimeout(resolve, 80));
  });

  test('that fail in time are heard of', async () => {
    const { sut } = closing();
    sut.add('failing', () => Promise.reject(new Error('no')));
    await expect(sut.stop()).rejects.toThrow('no');
  });
});
