/** Starts the server that most files of `npm run test:gui` share, once for all of them. */
import type { TestProject } from 'vitest/node';
import { startDevServer } from './server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    base: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startDevServer();
  project.provide('base', server.base);
  return server.stop;
}
