/**
 * Kind `secrets` (language 11.14): one secret, for the later tasks of the same pipeline. The worker is told to hide the
 * value before the task answers, so what travels is `***`. Provider `env` reads only variables that were set for the
 * purpose; the others are the managers of 12.3.
 */
import { isMap } from '../../machines/json.ts';
import { secretVariable } from '../../machines/keychain/sources.ts';
import { failure } from './errors.ts';
import { FieldProblem, requiredText, textOf } from './fields.ts';
import { SecretUnavailable } from './secret-managers/provider.ts';
import type { SecretManagers } from './secret-managers/providers.ts';
import type { Tool, ToolCall, ToolOutcome } from './tool.ts';

export interface SecretsOptions {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly managers: SecretManagers;
}

/** A secrets tool. */
export function createSecrets({ environment, managers }: SecretsOptions): Tool {
  return {
    kind: 'secrets',
    async run(call) {
      const provider = requiredText(call.fields, 'provider').trim().toLowerCase();
      const name = requiredText(call.fields, 'name').trim();
      if (provider === 'env') return ofEnvironment(environment, name, call);
      const manager = managers.get(provider);
      if (manager === undefined) {
        const known = ['env', ...managers.keys()].join(', ');
        throw new FieldProblem(`secret provider '${provider}' is unknown; known: ${known}`);
      }
      const version = textOf(call.fields, 'version')?.trim() || null;
      const workload = async () => {
        const root = (await call.context())['workload'];
        return isMap(root) ? root : {};
      };
      const signal =
        call.timeoutMs === null ? call.signal : AbortSignal.any([call.signal, AbortSignal.timeout(call.timeoutMs)]);
      try {
        return revealed(await manager.read({ path: name, version, auth: call.auth, workload }, signal), call);
      } catch (error) {
        call.signal.throwIfAborted();
        if (signal.aborted)
          return failure('timeout', 'CONN_TIMEOUT', `secret provider '${provider}' did not answer in time`);
        if (error instanceof SecretUnavailable) return failure(error.kind, error.code, error.message);
        throw error;
      }
    },
  };
}

function ofEnvironment(environment: SecretsOptions['environment'], name: string, call: ToolCall): ToolOutcome {
  const variable = secretVariable(name);
  const value = environment[variable];
  if (value === undefined || value === '') {
    return failure('missing_reference', 'SECRET_NOT_FOUND', `the worker has no variable ${variable}`);
  }
  return revealed(value, call);
}

function revealed(value: string, { host }: ToolCall): ToolOutcome {
  host.conceal(value);
  return { ok: true, data: { value } };
}
