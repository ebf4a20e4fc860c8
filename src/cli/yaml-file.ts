/** A YAML file of a known shape: read, checked, and its problems told with the file's name, all at once. */
import * as v from 'valibot';
import type { Json } from '../../machines/json.ts';
import { LineIndex } from '../../machines/playbook/yaml-node.ts';
import { readYaml } from '../../machines/playbook/yaml-source.ts';
import { problemsOf } from '../wire/sentences.ts';
import { UsageError } from './command.ts';
import { textOfFile } from './text-file.ts';

/** The value of the one document in the file. Throws UsageError. */
export async function yamlOfFile(file: string): Promise<Json> {
  const reading = readYaml(await textOfFile(file));
  if (reading.ok) return reading.root.json;
  const lines = new LineIndex(reading.text);
  const sentences = reading.problems.map(({ message, at }) => {
    const { line, column } = lines.position(at.start);
    return `${file}:${line}:${column}  ${message}`;
  });
  throw new UsageError(sentences.join('\n'));
}

/** `value` as the schema reads it; `place` begins each sentence. Throws UsageError. */
export function shaped<S extends v.GenericSchema>(schema: S, value: Json, place: string): v.InferOutput<S> {
  const parsed = v.safeParse(schema, value);
  if (parsed.success) return parsed.output;
  // `file: cases[0].name: …`, as a person looks for it; a problem of the whole is told of the file alone.
  const sentences = problemsOf(parsed.issues, '').map(({ sentence }) => sentence.replace(/^(\.|: )/, ''));
  throw new UsageError(sentences.map((sentence) => `${place}: ${sentence}`).join('\n'));
}
