/** What a secret may look like when it has leaked, and where in a text it does. */

export interface Canary {
  readonly name: string;
  readonly value: string;
}

/** Length of a piece of a secret that must not be seen either (reliability I-13). */
const PIECE = 12;

/** The forms of this secret that occur in the text, each with what stands around it; empty where none does. */
export function leaksIn(text: string, { name, value }: Canary): readonly string[] {
  return formsOf(value).flatMap(([form, spelling]) => {
    const at = text.indexOf(spelling);
    return at < 0 ? [] : [`${name} (${form}): …${text.slice(Math.max(0, at - 60), at + spelling.length + 60)}…`];
  });
}

function formsOf(value: string): readonly (readonly [string, string])[] {
  const bytes = Buffer.from(value, 'utf8');
  const forms: [string, string][] = [
    ['plain', value],
    ['hex', bytes.toString('hex')],
    ['HEX', bytes.toString('hex').toUpperCase()],
    ['percent', encodeURIComponent(value)],
    ['json', JSON.stringify(value).slice(1, -1)],
    ['json in json', JSON.stringify(JSON.stringify(value).slice(1, -1)).slice(1, -1)],
  ];
  for (const before of [0, 1, 2]) {
    // The first and the last characters depend on what stands beside the secret.
    const text = Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .replace(/=+$/, '')
      .slice(4, -2);
    forms.push(
      [`base64 at ${before}`, text],
      [`base64url at ${before}`, text.replaceAll('+', '-').replaceAll('/', '_')],
    );
  }
  for (let at = 0; at + PIECE <= value.length; at += 1) forms.push([`piece at ${at}`, value.slice(at, at + PIECE)]);
  return forms;
}
