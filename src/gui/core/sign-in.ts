/**
 * Who uses these pages, where the API itself asks (api 1.13): a token, kept until the tab is closed and sent in a header
 * only, never in an address. Behind a gateway there is none; its cookie says who one is (gateway-session.ts).
 */
import { signal } from '@preact/signals';
import { ROOT } from './router.ts';

const TOKEN_KEY = 'callboard.token';

export interface User {
  readonly display_name?: string | null;
  readonly email?: string | null;
  readonly roles?: readonly string[];
}

interface Validity {
  readonly valid?: boolean;
  readonly user?: User | null;
  readonly message?: string | null;
}

/** Why a token is asked for: there is none, or the one there was is not accepted any more. Null while all is well. */
export const signInWanted = signal<'missing' | 'refused' | null>(null);
/** Whose token it is, as far as the server told. */
export const user = signal<User | null>(null);

export function token(): string | null {
  try {
    return sessionStorage.getItem(TOKEN_KEY);
  } catch {
    return null;
  }
}

/** After a 401: asks for a token, unless the server says that this one is good and the refusal had another reason. */
export async function noteRefusal(base: string): Promise<void> {
  const held = token();
  if (await isAccepted(base, held)) return;
  signInWanted.value = held === null ? 'missing' : 'refused';
}

/** Uses a token if the server accepts it; otherwise the sentence that says why not. */
export async function signIn(base: string, given: string): Promise<string | null> {
  let answer: Validity | null;
  try {
    answer = await validityOf(base, given);
  } catch {
    return 'The server does not answer. Try again in a moment.';
  }
  if (answer?.valid !== true) return answer?.message ?? 'The server does not accept this token.';
  sessionStorage.setItem(TOKEN_KEY, given);
  user.value = answer.user ?? null;
  signInWanted.value = null;
  return null;
}

/** Forgets the token and, by loading the first page anew, everything that was read with it. */
export function signOut(): void {
  sessionStorage.removeItem(TOKEN_KEY);
  location.assign(`${ROOT}/`);
}

/** Learns at the start whose token this tab still holds. */
export async function recallUser(base: string): Promise<void> {
  const held = token();
  if (held !== null) await isAccepted(base, held);
}

async function isAccepted(base: string, held: string | null): Promise<boolean> {
  const answer = await validityOf(base, held).catch(() => null);
  user.value = held === null ? null : (answer?.user ?? null);
  return answer?.valid === true;
}

async function validityOf(base: string, held: string | null): Promise<Validity | null> {
  const response = await fetch(`${base}/api/auth/validate`, {
    method: 'POST',
    headers: { accept: 'application/json', 'content-type': 'application/json' },
    body: JSON.stringify(held === null ? {} : { session_token: held }),
  });
  if (!response.ok) return null;
  // The documented shape (api 2.18); every field is looked at as if it could be missing.
  return (await response.json()) as Validity;
}
