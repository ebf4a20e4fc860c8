/** One SQL statement over a stored credential (api 2.11). */
import { queryOf, sqlAnswer, sqlBody } from '../wire/sql.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

export function sqlRoutes({ services }: ApiContext): Route[] {
  return [
    route({
      method: 'POST',
      path: '/api/postgres/execute',
      level: 'seed',
      role: ['A'],
      tag: 'SQL',
      summary: 'Run one SQL statement',
      body: sqlBody,
      bodyLimit: 'general',
      answer: sqlAnswer,
      codes: ['sql_error', 'sql_not_allowed', 'not_found'],
      waits: true,
      example: { request: { query: 'select 1 as one', credential_name: 'pg_auth' } },
      handle: async ({ body }) => {
        const answer = await services.sql.execute({
          query: queryOf(body),
          parameters: body.parameters ?? [],
          credentialName: body.credential_name ?? body.credential ?? null,
          schema: body.schema ?? null,
          maxRows: body.max_rows ?? 10_000,
          timeoutSeconds: body.timeout_seconds ?? 30,
        });
        return {
          status: 'ok',
          result: answer.result,
          row_count: answer.rowCount,
          columns: answer.columns,
          truncated: answer.truncated,
          error: null,
        };
      },
    }),
  ];
}
