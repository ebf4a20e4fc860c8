/** Schedules (api 2.17). */
import * as v from 'valibot';
import { keptTraceOf } from '../../machines/trace-context.ts';
import { id } from '../wire/ids.ts';
import { queryInteger } from '../wire/query-fields.ts';
import {
  schedule,
  scheduleBody,
  scheduleChange,
  scheduleToWire,
  toScheduleChange,
  toScheduleDraft,
} from '../wire/schedule.ts';
import { startAnswer, startToWire } from '../wire/start.ts';
import type { ApiContext } from './context.ts';
import { type Route, route } from './route.ts';

const tag = 'Schedules';
const params = v.object({ schedule_id: id });
const START_CODES = ['not_found', 'kind_not_executable', 'resource_kind_required', 'playbook_invalid'] as const;
const PREVIEW_MAX = 100;
/** The inputs of a start (api 1.9), and what stands around them. */
const BODY_LIMIT = 1_048_576 + 65_536;

export function scheduleRoutes({ services }: ApiContext): Route[] {
  const { executionAccess, schedules } = services;

  /** The rules of a playbook hold for what starts it (api 8.8.5). Throws forbidden. */
  async function permitted(scheduleId: number, permission: 'view' | 'execute') {
    const row = await schedules.get(scheduleId);
    await executionAccess.checkPlaybook(row.path, permission);
    return row;
  }

  return [
    route({
      method: 'POST',
      path: '/api/schedules',
      level: 'plus',
      role: ['O'],
      tag,
      summary: 'Start a playbook again and again, or at one moment',
      body: scheduleBody,
      bodyLimit: BODY_LIMIT,
      answer: schedule,
      codes: START_CODES,
      example: {
        request: { name: 'nightly', path: 'demo/greet', cron: '0 3 * * *', timezone: 'Europe/Berlin', overlap: 'skip' },
      },
      handle: async ({ body }) => scheduleToWire(await schedules.create(toScheduleDraft(body))),
    }),
    route({
      method: 'GET',
      path: '/api/schedules',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'All schedules, by name',
      answer: v.object({ items: v.array(schedule), count: v.number() }),
      handle: async () => {
        const all = await schedules.list();
        const isSeen = await Promise.all(all.map(({ path }) => executionAccess.allowsPlaybook(path, 'view')));
        const rows = all.filter((_, index) => isSeen[index]);
        return { items: rows.map(scheduleToWire), count: rows.length };
      },
    }),
    route({
      method: 'GET',
      path: '/api/schedules/{schedule_id}',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'One schedule',
      params,
      answer: schedule,
      codes: ['not_found'],
      handle: async ({ params: { schedule_id } }) => scheduleToWire(await permitted(schedule_id, 'view')),
    }),
    route({
      method: 'PUT',
      path: '/api/schedules/{schedule_id}',
      level: 'plus',
      role: ['O'],
      tag,
      summary: 'Change a schedule; fields that are left out stay, and a rhythm takes the place of any other',
      params,
      body: scheduleChange,
      bodyLimit: BODY_LIMIT,
      answer: schedule,
      codes: START_CODES,
      example: { request: { enabled: false } },
      handle: async ({ params: { schedule_id }, body }) => {
        await permitted(schedule_id, 'execute');
        return scheduleToWire(await schedules.update(schedule_id, toScheduleChange(body)));
      },
    }),
    route({
      method: 'DELETE',
      path: '/api/schedules/{schedule_id}',
      level: 'plus',
      role: ['O'],
      tag,
      summary: 'Delete a schedule; what it started goes on',
      params,
      answer: v.object({ status: v.literal('success'), schedule_id: v.number(), name: v.string() }),
      codes: ['not_found'],
      handle: async ({ params: { schedule_id } }) => {
        await permitted(schedule_id, 'execute');
        const { name } = await schedules.remove(schedule_id);
        return { status: 'success', schedule_id, name };
      },
    }),
    route({
      method: 'POST',
      path: '/api/schedules/{schedule_id}/trigger',
      level: 'plus',
      role: ['O'],
      tag,
      summary: 'Start now what a schedule starts; what is planned stays planned',
      params,
      body: v.object({}),
      answer: startAnswer,
      codes: START_CODES,
      handle: async ({ params: { schedule_id }, request: { headers } }) =>
        startToWire(await schedules.trigger(schedule_id, keptTraceOf(headers['traceparent'], headers['tracestate']))),
    }),
    route({
      method: 'GET',
      path: '/api/schedules/{schedule_id}/preview',
      level: 'plus',
      role: ['V'],
      tag,
      summary: 'When a schedule is due next',
      params,
      query: v.object({ count: v.optional(queryInteger(1, PREVIEW_MAX)) }),
      answer: v.object({ next: v.array(v.string()) }),
      codes: ['not_found'],
      handle: async ({ params: { schedule_id }, query }) => {
        await permitted(schedule_id, 'view');
        return { next: await schedules.preview(schedule_id, query.count ?? 5) };
      },
    }),
  ];
}
