/**
 * What the pages need behind a gateway, and learn only when one asks for it: a server without a gateway is never asked
 * for doors it does not have.
 */

let known: string | null = null;

/** The token of the session that a gateway wants with every change; null until one wanted it. */
export function csrfToken(): string | null {
  return known;
}

/** Asks the gateway for the session's token; false when there is none. */
export async function renewCsrfToken(base: string): Promise<boolean> {
  const token = await textAt(`${base}/auth/me`, 'csrf_token');
  if (token === null || token === known) return false;
  known = token;
  return true;
}

/** Leaves for the gateway's login, which leads back to this page; false when nobody offers a login. */
export async function goToLogin(base: string): Promise<boolean> {
  const login = await textAt(`${base}/api/runtime/contract`, 'auth', 'login_url');
  if (login === null) return false;
  // Only a path of the gateway itself is a place to go to; the provider's address never comes from here.
  if (!login.startsWith('/') || login.startsWith('//')) return false;
  const back = location.pathname + location.search + location.hash;
  location.assign(`${base}${login}?return_to=${encodeURIComponent(back)}`);
  return true;
}

async function textAt(address: string, ...keys: readonly string[]): Promise<string | null> {
  try {
    const response = await fetch(address, { headers: { accept: 'application/json' } });
    if (!response.ok) return null;
    let value: unknown = await response.json();
    for (const key of keys) value = typeof value === 'object' && value !== null ? Reflect.get(value, key) : undefined;
    return typeof value === 'string' ? value : null;
  } catch {
    return null;
  }
}
