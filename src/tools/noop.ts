/** Kind `noop` (language 11.6): answers with its own `result`, or says it did nothing; the router of a pipeline. */
import { jsonOrText } from './fields.ts';
import type { Tool } from './tool.ts';

/** A noop tool. It never fails. */
export function createNoop(): Tool {
  return {
    kind: 'noop',
    run: async ({ fields }) => {
      const { result, message } = fields;
      if (result !== undefined) return { ok: true, data: result };
      const said = message === undefined || message === null ? 'noop' : jsonOrText(message);
      return { ok: true, data: { status: 'ok', message: said } };
    },
  };
}
