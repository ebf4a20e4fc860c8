import { describe, expect, it } from 'vitest';
import { TemplateError } from '../../../machines/playbook/template/errors.ts';
import { storable } from '../../../machines/playbook/template/storable.ts';

describe('what leaves a template for the log', () => {
  it.each([null, true, 5, 'text \u{1f600}', [1, ['x']], { a: { b: [null] } }])('may be %j', (value) => {
    expect(storable(value, '{{ x }}')).toBe(value);
  });

  it.each([
    ['\0', 'a NUL character'],
    ['\ud800', 'half a surrogate pair'],
    [[1, 'a\0'], 'a NUL character'],
    [{ a: { '\udc00': 1 } }, 'half a surrogate pair'],
  ])('may not be %j', (value, problem) => {
    expect(() => storable(value, '{{ x }}')).toThrow(
      new TemplateError('TEMPLATE_ERROR', `text with ${problem} cannot be stored`, '{{ x }}'),
    );
  });

  it('is told apart by what it was made from, written as JSON where that is no text', () => {
    expect(() => storable(['\0'], ['{{ x }}'])).toThrow('in "["{{ x }}"]"');
  });
});
