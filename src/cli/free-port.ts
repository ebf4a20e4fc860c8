/** Whether a port can be listened on, asked by doing it for a moment. */
import { createServer } from 'node:net';

/** The first port from `first` that is free, looking at most `tries` further. Null: none of them. */
export async function freePort(host: string, first: number, tries: number): Promise<number | null> {
  for (let port = first; port <= Math.min(65535, first + tries); port++) {
    if (await isFree(host, port)) return port;
  }
  return null;
}

function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error) => {
      if ('code' in error && (error.code === 'EADDRINUSE' || error.code === 'EACCES')) resolve(false);
      else reject(error);
    });
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}
