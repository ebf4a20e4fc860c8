import { describe, expect, it, test } from 'vitest';
import { Scrubber } from '../../src/worker/scrub.ts';
import { processorTime } from '../support/processor-time.ts';

const SECRET = 'p"a\\ss/w+o r&d€é1\n2';

function scrubber(...secrets: string[]): Scrubber {
  const sut = new Scrubber();
  sut.learnFrom(secrets);
  return sut;
}

const json = (text: string) => JSON.stringify(text).slice(1, -1);
const bytes = Buffer.from(SECRET);

describe('a secret is hidden', () => {
  it.each<readonly [string, string]>([
    ['as it is', SECRET],
    ['in JSON', json(SECRET)],
    ['in JSON in JSON in JSON', json(json(json(SECRET)))],
    ['percent-encoded', encodeURIComponent(SECRET)],
    ['percent-encoded in lower case', encodeURIComponent(SECRET).replace(/%../g, (code) => code.toLowerCase())],
    ['percent-encoded twice', encodeURIComponent(encodeURIComponent(SECRET))],
    ['JSON in a URL', encodeURIComponent(json(SECRET))],
    ['in a form', new URLSearchParams({ a: SECRET }).toString().slice(2)],
    ['as a URL normalises it', new URL(`http://h/${SECRET.replace(/[\n\\]/g, encodeURIComponent)}`).pathname.slice(1)],
    [
      'in ASCII only',
      json(SECRET).replace(/[^ -~]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`),
    ],
    ['in HTML', SECRET.replaceAll('&', '&amp;').replaceAll('"', '&#34;')],
    ['in hex', bytes.toString('hex')],
    ['in HEX', bytes.toString('hex').toUpperCase()],
    ['in upper case', SECRET.toUpperCase()],
    ['in lower case', SECRET.toLowerCase()],
    ['in upper case and JSON', json(SECRET.toUpperCase())],
    ['capitalised and percent-encoded', encodeURIComponent(`P${SECRET.slice(1)}`)],
    ['in base64', bytes.toString('base64')],
    ['in base64url', bytes.toString('base64url')],
  ])('%s', (_how, text) => {
    expect(scrubber(SECRET).text(`before ${text} after`)).toBe('before *** after');
  });

  it.each([1, 2, 3])('in base64 of a longer text, %i bytes in', (before) => {
    const text = Buffer.concat([Buffer.alloc(before, 'x'), bytes, Buffer.from('yz')]).toString('base64');
    const hidden = scrubber(SECRET).text(text);
    expect(hidden).toMatch(/^.{0,6}\*\*\*.{0,8}$/);
  });

  it('in keys, lists and maps', () => {
    expect(scrubber('secret-1').json({ 'a secret-1': ['secret-1', { b: 'xsecret-1x' }] })).toEqual({
      'a ***': ['***', { b: 'x***x' }],
    });
  });

  it('in upper case, also where that makes it longer', () => {
    expect(scrubber('straßenbahn').text(`a ${'straßenbahn'.toUpperCase()} b`)).toBe('a *** b');
  });

  it('whole, where one secret contains another', () => {
    expect(scrubber('secret', 'my-secret-1').text('my-secret-1 secret')).toBe('*** ***');
  });
});

test('what only looks like it stays', () => {
  expect(scrubber('ab\ncdef').text('abncdef ab cdef')).toBe('abncdef ab cdef');
  expect(scrubber('a.c+ef').text('abcccef')).toBe('abcccef');
  expect(scrubber('short').text('short')).toBe('short');
});

test('a short secret is hidden where it is the whole text', () => {
  const sut = new Scrubber();
  sut.conceal('abc');
  expect([sut.text('abc'), sut.text('abcd')]).toEqual(['***', 'abcd']);
});

test('a text made to be slow to look through is not', () => {
  const sut = scrubber('a"\\"b"\\\\"c/d e', '"""""""""', '\\\\\\\\\\\\\\\\');
  const spent = processorTime();
  sut.text('\\'.repeat(100_000) + '%25'.repeat(100_000) + 'a"'.repeat(100_000));
  expect(spent()).toBeLessThan(5_000);
});
