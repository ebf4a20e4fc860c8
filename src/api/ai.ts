/**
 * Help of a model (api 2.2.17). The service speaks with no model itself: a playbook does, which the request or SVC_AI_PLAYBOOK
 * names. It is started like any other, with what it is asked about as its workload, and waited for.
 */
import type { FastifyReply } from 'fastify';
import * as v from 'valibot';
import { DomainError } from '../../actors/errors.ts';
import type { Json, JsonMap } from '../../machines/json.ts';
import {
  aiAnswer,
  aiToWire,
  analyzeAiBody,
  explainAiBody,
  generateAiAnswer,
  generateAiBody,
  generatedOf,
  type Helped,
} from '../wire/ai.ts';
import { analysisToWire } from '../wire/analysis.ts';
import { id } from '../wire/ids.ts';
import { createAnalyst } from './analysis.ts';
import { type ApiContext, nowIso } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'AI helpers';
const TIMEOUT_SECONDS = 120;
const START_CODES = [
  'not_configured',
  'not_found',
  'kind_not_executable',
  'resource_kind_required',
  'playbook_invalid',
] as const;

interface Question {
  readonly helper: string | null | undefined;
  readonly task: 'explain' | 'generate' | 'analyze';
  readonly prompt: string | null | undefined;
  readonly workload: JsonMap | null | undefined;
  readonly timeoutSeconds: number | null | undefined;
}

export function aiRoutes(context: ApiContext): Route[] {
  const { services, settings, clock, waits } = context;
  const { catalog, executions } = services;
  const analyst = createAnalyst(context);

  /** Told before anything else is looked at: without a playbook nothing of this works. */
  function helperOf(named: string | null | undefined): string {
    const path = named ?? settings.aiPlaybook;
    if (path === null) {
      throw new DomainError('not_configured', 'No playbook was named in the request, and SVC_AI_PLAYBOOK is not set');
    }
    return path;
  }

  async function ask(
    question: Question,
    target: Helped['target'],
    facts: JsonMap,
    reply: FastifyReply,
  ): Promise<Helped> {
    const path = helperOf(question.helper);
    const entry = await catalog.get(path, 'latest');
    const prompt: Json = question.prompt ?? null;
    const { executionId } = await executions.start({
      path,
      // An agent has to be asked for as one.
      resourceKind: entry?.kind === 'agent' ? 'agent' : 'playbook',
      workload: { ...question.workload, task: question.task, prompt, target: { ...target, ...facts } },
    });
    const timeoutMs = (question.timeoutSeconds ?? TIMEOUT_SECONDS) * 1000;
    const row = await executions.whenEnded(
      executionId,
      AbortSignal.any([waits.signalFor(reply), AbortSignal.timeout(timeoutMs)]),
    );
    return { target, path, row, generatedAt: nowIso(clock) };
  }

  return [
    route({
      method: 'POST',
      path: '/api/catalog/playbooks/explain/ai',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Let a playbook explain a playbook',
      body: explainAiBody,
      bodyLimit: 'general',
      answer: aiAnswer,
      codes: START_CODES,
      waits: true,
      example: { request: { path: 'demo/greet', explanation_playbook_path: 'ai/explain' } },
      handle: async ({ body, reply }) => {
        helperOf(body.explanation_playbook_path);
        const { content, path } = body;
        const entry =
          body.catalog_id != null
            ? await catalog.byId(body.catalog_id)
            : path != null
              ? await catalog.get(path, body.version ?? 'latest')
              : null;
        if (content == null && entry === null) {
          if (body.catalog_id != null) throw new DomainError('not_found', 'Catalog entry not found');
          if (path != null) throw new DomainError('not_found', `Playbook '${path}' not found`);
          const message = 'body: needs path, catalog_id or content';
          throw new DomainError('validation_error', message, { errors: [message] });
        }
        const target = { path: entry?.path ?? path ?? null, version: entry?.version ?? null };
        const question = { ...questionOf(body), helper: body.explanation_playbook_path, task: 'explain' } as const;
        return aiToWire(await ask(question, target, { content: content ?? entry?.content ?? '' }, reply));
      },
    }),
    route({
      method: 'POST',
      path: '/api/catalog/playbooks/generate/ai',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Let a playbook write a playbook; nothing is registered',
      body: generateAiBody,
      bodyLimit: 'general',
      answer: generateAiAnswer,
      codes: START_CODES,
      waits: true,
      example: { request: { prompt: 'load a CSV file into PostgreSQL', generator_playbook_path: 'ai/generate' } },
      handle: async ({ body, reply }) => {
        helperOf(body.generator_playbook_path);
        if (body.prompt == null || body.prompt.trim() === '') {
          throw new DomainError('validation_error', "'prompt' is required", { errors: ["'prompt' is required"] });
        }
        const question = { ...questionOf(body), helper: body.generator_playbook_path, task: 'generate' } as const;
        const helped = await ask(question, { path: body.path ?? null, version: null }, {}, reply);
        return { ...aiToWire(helped), generated_playbook: generatedOf(helped) };
      },
    }),
    route({
      method: 'POST',
      path: '/api/executions/{execution_id}/analyze/ai',
      level: 'client',
      role: ['O'],
      tag,
      summary: 'Let a playbook say what happened in a run; it gets the report of the rules',
      params: v.object({ execution_id: id }),
      body: analyzeAiBody,
      bodyLimit: 'general',
      answer: aiAnswer,
      codes: START_CODES,
      waits: true,
      example: { request: { analysis_playbook_path: 'ai/analyze' } },
      handle: async ({ params: { execution_id }, body, reply }) => {
        helperOf(body.analysis_playbook_path);
        const analysed = await analyst.analyse(execution_id, {
          withContent: body.include_playbook_content ?? true,
        });
        const { row } = analysed;
        const question = { ...questionOf(body), helper: body.analysis_playbook_path, task: 'analyze' } as const;
        const target = { path: row.path, version: row.version };
        // As it goes over the wire it is plain JSON.
        const analysis = JSON.parse(JSON.stringify(analysisToWire(analysed))) as JsonMap;
        return aiToWire(await ask(question, target, { execution_id, analysis }, reply));
      },
    }),
  ];
}

function questionOf(body: {
  readonly prompt?: string | null | undefined;
  readonly workload?: JsonMap | null | undefined;
  readonly timeout_seconds?: number | null | undefined;
}) {
  return { prompt: body.prompt, workload: body.workload, timeoutSeconds: body.timeout_seconds };
}
