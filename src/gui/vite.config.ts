/** `npm run gui:dev`: the GUI with hot reload, its API calls handed on to a server that already runs. */
import { defineConfig } from 'vite';
import { buildSettings } from './build/settings.ts';

const server = 'http://127.0.0.1:8082';

export default defineConfig({
  ...buildSettings('dist'),
  server: { host: '127.0.0.1', proxy: { '/api': server, '/health': server, '/openapi.json': server } },
});
