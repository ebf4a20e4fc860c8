/** How a request says who it is from (api 1.13). */
import type { IncomingHttpHeaders } from 'node:http';

/** The tokens a request names, in the order in which they count. Only `Bearer` is a way to bring one in `Authorization`. */
export function givenTokens(headers: IncomingHttpHeaders): readonly string[] {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  const session = headers['x-session-token'];
  return [bearer, typeof session === 'string' && session !== '' ? session : undefined].filter(
    (each) => each !== undefined,
  );
}
