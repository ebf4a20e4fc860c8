/**
 * The line on which gateways hear that access has ended somewhere (api 2.19): a revocation travels by bus to every server
 * and by this stream to every gateway. It says nothing of whom it was; a gateway asks anew about everyone. Where the bus
 * cannot be trusted there is no line, and a gateway that has none believes nothing for long.
 */
import { RequestError } from '../errors.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const LOOK_MS = 1_000;

export function accessStreamRoutes({ services, streams, lifecycle }: ApiContext): Route[] {
  return [
    route({
      method: 'GET',
      path: '/api/internal/sessions/changes',
      level: 'plus',
      role: ['A'],
      tag: 'Sessions',
      summary: 'Tells a gateway that sessions or tokens have ended',
      mediaType: 'text/event-stream',
      codes: ['queue_unavailable', 'pool_saturated'],
      waits: true,
      part: true,
      handle: async ({ request, reply }) => {
        if (lifecycle.parts().bus !== 'ok') {
          throw new RequestError('queue_unavailable', 'Changes of sessions are not heard here now');
        }
        if (request.method === 'HEAD') return reply.type('text/event-stream; charset=utf-8').send();
        const stream = streams.start(request, reply, 'access');
        const tell = (event: string) => {
          // A gateway that does not take so little is better off without the line.
          if (stream.wait === null) void stream.send({ event, data: {} });
          else stream.end();
        };
        const unsubscribe = services.identities.onRevoked(() => tell('changed'));
        const looking = setInterval(() => {
          if (lifecycle.parts().bus !== 'ok') stream.end();
        }, LOOK_MS);
        stream.onClose(() => {
          unsubscribe();
          clearInterval(looking);
        });
        tell('listening');
        return reply;
      },
    }),
  ];
}
