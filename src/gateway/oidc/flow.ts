/**
 * One login under way, kept by the browser that began it: sealed in a cookie of ten minutes, so that no other browser can
 * finish it and no gateway has to remember it.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import { fieldsOf } from '../session-store.ts';

export interface Flow {
  readonly state: string;
  readonly nonce: string;
  /** Of PKCE. */
  readonly verifier: string;
  readonly returnTo: string;
  /** Milliseconds. */
  readonly until: number;
}

export const FLOW_SECONDS = 600;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export interface FlowSeal {
  seal(flow: Flow): string;
  /** Null for anything this gateway did not seal, or too long ago. */
  open(text: string, now: number): Flow | null;
}

/** Gateways with the same secret finish each other's logins. */
export function createFlowSeal(secret: string): FlowSeal {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'callboard gateway login', 32));
  return {
    seal(flow) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', key, nonce);
      const sealed = Buffer.concat([cipher.update(JSON.stringify(flow), 'utf8'), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url');
    },
    open(text, now) {
      const bytes = Buffer.from(text, 'base64url');
      if (bytes.length <= NONCE_BYTES + TAG_BYTES) return null;
      try {
        const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, NONCE_BYTES), {
          authTagLength: TAG_BYTES,
        });
        decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        const plain = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
        const { state, nonce, verifier, returnTo, until } = fieldsOf(JSON.parse(plain.toString('utf8')));
        const isLive = typeof until === 'number' && until > now;
        return isLive
          ? {
              state: String(state),
              nonce: String(nonce),
              verifier: String(verifier),
              returnTo: String(returnTo),
              until,
            }
          : null;
      } catch {
        return null;
      }
    },
  };
}

export function newFlow(returnTo: string, now: number): Flow {
  const chance = () => randomBytes(32).toString('base64url');
  return { state: chance(), nonce: chance(), verifier: chance(), returnTo, until: now + FLOW_SECONDS * 1000 };
}

/** PKCE S256. */
export function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier, 'ascii').digest('base64url');
}
