/** A rule-based report on a run (api 2.3.12): read from rows, bounded in what it reads and shows. */
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import { analyse, sampleOf } from '../../machines/analysis.ts';
import type { LogEvent } from '../../machines/events.ts';
import {
  type Analysed,
  analysisAnswer,
  analysisToWire,
  analyzeBody,
  EVENT_SAMPLE_SIZE,
  MAX_EVENTS,
} from '../wire/analysis.ts';
import { id } from '../wire/ids.ts';
import type { ApiContext } from './context.ts';
import { ALL_EVENTS } from './events.ts';
import { type Route, route } from './route.ts';

const PAGE = 500;

export interface AnalysisRequest {
  readonly maxEvents?: number;
  readonly sampleSize?: number;
  readonly withContent?: boolean;
}

export interface Analyst {
  /** Throws not_found. */
  analyse(executionId: number, request: AnalysisRequest): Promise<Analysed>;
}

export function createAnalyst({ services, clock }: Pick<ApiContext, 'services' | 'clock'>): Analyst {
  const { reads, catalog, explanations } = services;

  /** The last events of a log, in the order of their numbers. */
  async function lastEvents(executionId: number, lastEventId: number, count: number): Promise<readonly LogEvent[]> {
    const found: LogEvent[] = [];
    for (let since = Math.max(0, lastEventId - count); since < lastEventId; since += PAGE) {
      const untilEventId = Math.min(since + PAGE, lastEventId);
      const page = { ...ALL_EVENTS, pageSize: PAGE, sinceEventId: since, untilEventId };
      found.push(...(await reads.events(executionId, page)).events);
    }
    return found;
  }

  return {
    async analyse(executionId, { maxEvents = MAX_EVENTS, sampleSize = EVENT_SAMPLE_SIZE, withContent = true }) {
      const row = await reads.execution(executionId);
      if (row === null) throw new DomainError('not_found', `Execution ${executionId} not found`);
      const [events, entry, explanation] = await Promise.all([
        lastEvents(executionId, row.lastEventId, maxEvents),
        catalog.byId(row.catalogId),
        row.status === 'running' ? explanations.of(executionId) : null,
      ]);
      const nowMs = clock.now();
      const analysis = analyse(
        {
          status: row.status,
          durationMs: (row.endTime === null ? nowMs : Date.parse(row.endTime)) - Date.parse(row.startTime),
          eventCount: row.lastEventId,
          error: row.error,
          stuck: explanation?.stuck === true ? explanation.sentence : null,
        },
        events,
      );
      return { row, analysis, sample: sampleOf(events, sampleSize), entry, withContent, nowMs };
    },
  };
}

export function analysisRoutes(context: ApiContext): Route[] {
  const analyst = createAnalyst(context);
  return [
    route({
      method: 'POST',
      path: '/api/executions/{execution_id}/analyze',
      level: 'client',
      role: ['V'],
      tag: 'Executions',
      summary: 'What rules find in the log of a run: failures, retries, waits, slow steps, and what to do about them',
      params: v.object({ execution_id: id }),
      body: analyzeBody,
      answer: analysisAnswer,
      codes: ['not_found'],
      handle: async ({ params: { execution_id }, body }) =>
        analysisToWire(
          await analyst.analyse(execution_id, {
            maxEvents: body.max_events ?? MAX_EVENTS,
            sampleSize: body.event_sample_size ?? EVENT_SAMPLE_SIZE,
            withContent: body.include_playbook_content ?? true,
          }),
        ),
    }),
  ];
}
