/**
 * Kind `secrets` (language 11.14): one secret, for the later tasks of the same pipeline. The worker is told to hide the
 * value before the task answers, so what travels is `***`. Only provider `env` is built in, and it reads only variables
 * that were set for the purpose.
 */
import { failure } from './errors.ts';
import { FieldProblem, requiredText } from './fields.ts';
import type { Tool } from './tool.ts';

export interface SecretsOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** Secret managers a document may name (language 12.3) that this build cannot ask. */
const absent = new Set(['gcp', 'aws', 'azure', 'google', 'vault']);

/** A secrets tool. */
export function createSecrets({ environment }: SecretsOptions): Tool {
  return {
    kind: 'secrets',
    async run({ fields, host }) {
      const provider = requiredText(fields, 'provider').trim().toLowerCase();
      const name = requiredText(fields, 'name').trim();
      if (provider !== 'env') {
        const known = absent.has(provider) ? 'is not available in this build' : 'is unknown';
        throw new FieldProblem(`secret provider '${provider}' ${known}; 'env' is`);
      }
      const variable = secretVariable(name);
      const value = environment[variable];
      if (value === undefined || value === '') {
        return failure('missing_reference', 'SECRET_NOT_FOUND', `the worker has no variable ${variable}`);
      }
      host.conceal(value);
      return { ok: true, data: { value } };
    },
  };
}

/** `db password` is `SVC_SECRET_DB_PASSWORD`; the whole name of a variable may be given, too. */
function secretVariable(name: string): string {
  const plain = name.toUpperCase().replace(/[^A-Z0-9]/g, '_');
  return plain.startsWith('SVC_SECRET_') ? plain : `SVC_SECRET_${plain}`;
}
