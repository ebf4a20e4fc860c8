/** Secret managers for a process that runs no tasks: the server, which resolves keychain entries (language 12.4). */
import type { JsonMap } from '../../../machines/json.ts';
import { createEgress, type EgressOptions } from '../http/egress.ts';
import { createOutbound } from '../http/outbound.ts';
import { createTokens } from '../http/tokens.ts';
import type { ResolvedAuth } from '../tool.ts';
import { type ProviderId, SecretUnavailable } from './provider.ts';
import { createSecretManagers, type SecretEndpoints } from './providers.ts';

export interface SecretAskerOptions {
  readonly egress: EgressOptions;
  readonly endpoints: SecretEndpoints;
  readonly metadataUrl: string | null;
}

export interface SecretQuestion {
  readonly provider: ProviderId;
  readonly path: string;
  readonly auth: ResolvedAuth | null;
  readonly workload: JsonMap;
}

export interface SecretAsker {
  /** Throws SecretUnavailable, FieldProblem, or the reason of the signal. */
  ask(question: SecretQuestion, signal: AbortSignal): Promise<string>;
  close(): Promise<void>;
}

/** The largest secrets are 64 KiB. */
const ANSWER_MAX_BYTES = 1_048_576;

/** Throws RangeError for an egress rule that cannot be read. */
export function createSecretAsker(options: SecretAskerOptions): SecretAsker {
  const outbound = createOutbound(createEgress(options.egress), ANSWER_MAX_BYTES);
  const { metadataUrl } = options;
  // The variable with a token belongs to workers.
  const tokens = createTokens(outbound, { now: Date.now, platformToken: undefined, metadataUrl });
  const managers = createSecretManagers({ outbound, tokens, endpoints: options.endpoints, now: Date.now });
  return {
    async ask({ provider, path, auth, workload }, signal) {
      const manager = managers.get(provider);
      if (manager === undefined) {
        throw new SecretUnavailable('config', 'SECRET_PROVIDER', `secret provider '${provider}' is unknown`);
      }
      return manager.read({ path, version: null, auth, workload: async () => workload }, signal);
    },
    close: () => outbound.close(),
  };
}
