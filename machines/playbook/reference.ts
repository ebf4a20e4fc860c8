/** References to values stored apart from the log (language 10.4): `callboard://execution/<id>/result/<name>/<id>`. */

export interface Reference {
  readonly executionId: number;
  readonly name: string;
  readonly resultId: number;
}

const PATTERN = /^callboard:\/\/execution\/([1-9]\d{0,15})\/result\/([^/]{1,2048})\/([1-9]\d{0,15})$/;

/** Names may hold anything, so they are percent-encoded; the text stays one that can be split at its slashes. */
export function writeReference({ executionId, name, resultId }: Reference): string {
  return `callboard://execution/${executionId}/result/${encodeURIComponent(name)}/${resultId}`;
}

/** Null for a text that is no reference. */
export function readReference(text: string): Reference | null {
  const found = PATTERN.exec(text);
  if (found === null) return null;
  const [, executionId, encoded = '', resultId] = found;
  const name = decoded(encoded);
  const reference = { executionId: Number(executionId), resultId: Number(resultId) };
  const safe = Number.isSafeInteger(reference.executionId) && Number.isSafeInteger(reference.resultId);
  return name === null || !safe ? null : { ...reference, name };
}

function decoded(encoded: string): string | null {
  try {
    return decodeURIComponent(encoded);
  } catch {
    return null;
  }
}
