/** Where a login ends: a path of this host, or a page of a listed origin; anything else would make the gateway an open redirect. */
import type { Origins } from '../origins.ts';

export const HOME = '/ui/';

export function returnTo(wanted: string | null, publicUrl: string, origins: Origins): string {
  if (wanted === null || wanted.length > 2_048 || /[\p{Cc}\\\s]/u.test(wanted)) return HOME;
  if (!URL.canParse(wanted, publicUrl)) return HOME;
  const url = new URL(wanted, publicUrl);
  if (wanted.startsWith('/') && !wanted.startsWith('//')) {
    const path = `${url.pathname}${url.search}${url.hash}`;
    // Dots may have led to two slashes.
    return url.origin === new URL(publicUrl).origin && !path.startsWith('//') ? path : HOME;
  }
  const isPlain = url.username === '' && url.password === '';
  return /^https?:\/\//i.test(wanted) && isPlain && origins.isListed(url.origin) ? url.href : HOME;
}
