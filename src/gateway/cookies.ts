/**
 * The cookies of the gateway (api 8.8.1). `__Host-` makes a browser refuse them from another host, another path or
 * plain HTTP; only on loopback without TLS, where that prefix cannot work, do they lose it.
 */

export interface CookieNames {
  readonly session: string;
  readonly login: string;
}

export interface Cookies extends CookieNames {
  /** `Set-Cookie` of a value that lives for these seconds. */
  set(name: string, value: string, maxAgeSeconds: number): string;
  clear(name: string): string;
}

export function createCookies(publicUrl: string): Cookies {
  const isSecure = new URL(publicUrl).protocol === 'https:';
  const prefix = isSecure ? '__Host-' : '';
  const attributes = `Path=/; HttpOnly; SameSite=Lax${isSecure ? '; Secure' : ''}`;
  return {
    session: `${prefix}callboard_session`,
    login: `${prefix}cb_login`,
    set: (name, value, maxAgeSeconds) =>
      `${name}=${value}; Max-Age=${Math.max(0, Math.floor(maxAgeSeconds))}; ${attributes}`,
    clear: (name) => `${name}=; Max-Age=0; ${attributes}`,
  };
}

/** The value of a cookie of a request; null when it is absent, or there twice and so of doubtful origin. */
export function cookieOf(header: string | undefined, name: string): string | null {
  const values = (header ?? '')
    .split(';')
    .map((part) => part.trim())
    .filter((part) => part.startsWith(`${name}=`))
    .map((part) => part.slice(name.length + 1));
  return values.length === 1 && values[0] !== '' ? (values[0] ?? null) : null;
}
