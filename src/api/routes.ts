/** The route table: every operation of the service (api 2). What is not here does not exist. */

import { accessStreamRoutes } from './access-stream.ts';
import { adminRoutes } from './admin.ts';
import { aiRoutes } from './ai.ts';
import { analysisRoutes } from './analysis.ts';
import { batchRoutes } from './batches.ts';
import { catalogRoutes } from './catalog.ts';
import { catalogGraphRoutes } from './catalog-graph.ts';
import { catalogReadRoutes } from './catalog-reads.ts';
import { commandRoutes } from './commands.ts';
import type { ApiContext } from './context.ts';
import { credentialRoutes } from './credentials.ts';
import { eventRoutes } from './events.ts';
import { executionReadRoutes } from './execution-reads.ts';
import { executionStreamRoutes } from './execution-stream.ts';
import { executionRoutes } from './executions.ts';
import { healthRoutes } from './health.ts';
import { keychainRoutes } from './keychain.ts';
import { machineStreamRoutes } from './machine-stream.ts';
import { machineRoutes } from './machines.ts';
import { mcpRoutes } from './mcp.ts';
import { resultRoutes } from './results.ts';
import type { Route } from './route.ts';
import { scheduleRoutes } from './schedules.ts';
import { sessionRoutes } from './sessions.ts';
import { simulateRoutes } from './simulate.ts';
import { sqlRoutes } from './sql.ts';
import { testSuiteRoutes } from './test-suites.ts';
import { tokenRoutes } from './tokens.ts';
import { variableRoutes } from './variables.ts';
import { workerRoutes } from './workers.ts';

export function createRoutes(context: ApiContext): readonly Route[] {
  return [
    ...healthRoutes(context),
    ...catalogRoutes(context),
    ...catalogReadRoutes(context),
    ...catalogGraphRoutes(context),
    ...simulateRoutes(context),
    ...executionRoutes(context),
    ...executionReadRoutes(context),
    ...analysisRoutes(context),
    ...aiRoutes(context),
    ...testSuiteRoutes(context),
    ...executionStreamRoutes(context),
    ...batchRoutes(context),
    ...eventRoutes(context),
    ...commandRoutes(context),
    ...workerRoutes(context),
    ...credentialRoutes(context),
    ...keychainRoutes(context),
    ...machineRoutes(context),
    ...machineStreamRoutes(context),
    ...resultRoutes(context),
    ...variableRoutes(context),
    ...scheduleRoutes(context),
    ...sqlRoutes(context),
    ...mcpRoutes(context),
    ...adminRoutes(context),
    ...tokenRoutes(context),
    ...sessionRoutes(context),
    ...accessStreamRoutes(context),
  ];
}
