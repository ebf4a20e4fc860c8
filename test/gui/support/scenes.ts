/** Something on every page: runs that went well, that failed, that still run, and a secret that must not be seen. */
import type { Server } from './server.ts';

const WAITING = `apiVersion: callboard/v2
kind: Playbook
metadata: { name: nightly-report, path: demo/nightly-report, description: "Fetches, transforms and loads, and takes its time." }
workload: { region: eu, rows: 1200, dry: false, recipients: [ops@example.org] }
workflow:
  - step: start
    tool: { kind: noop, result: { rows: "{{ workload.rows }}" } }
    next:
      spec: { mode: inclusive }
      arcs:
        - step: fetch_orders
        - step: fetch_refunds
          when: "{{ workload.rows > 0 }}"
  - step: fetch_orders
    tool: { kind: noop, result: { n: 3 } }
    next: { arcs: [{ step: reconcile }] }
  - step: fetch_refunds
    tool: { kind: noop, result: { n: 1 } }
    next: { arcs: [{ step: reconcile }] }
  - step: reconcile
    tool:
      kind: python
      code: |
        import time
        time.sleep(600)
        result = {}
    next:
      arcs:
        - step: reconcile
          when: "{{ reconcile.again | default(false) }}"
        - step: send_report
        - step: give_up
          when: "{{ event.name == 'call.error' }}"
  - step: send_report
    tool: { kind: noop, result: { sent: true } }
  - step: give_up
    tool: { kind: noop, result: { sent: false } }
`;

export interface Scenes {
  readonly failed: number;
  readonly completed: number;
  readonly looped: number;
  readonly nested: number;
  readonly running: number;
}

export const SECRET = 'correct horse battery staple';

export async function setTheScene(server: Server): Promise<Scenes> {
  const register = (content: string) => server.call('POST', '/api/catalog/register', { content });
  await register(WAITING);
  await register(WAITING.replace('{ n: 3 }', '{ n: 4, source: "warehouse" }'));
  await server.call('POST', '/api/credentials', {
    name: 'billing_api',
    type: 'bearer',
    data: { token: SECRET },
    description: 'Token of the billing service',
    tags: ['billing', 'production'],
  });
  const planned = await server.call('GET', '/api/schedules');
  if (planned['count'] === 0) await planSomething(server);
  const completed = await server.run('examples/hello', { who: 'Ada' });
  const looped = await server.run('examples/loop', { items: 12 });
  const nested = await server.run('examples/nested');
  const failed = await server.run('examples/retry', { fails: 5 });
  const running = await server.run('demo/nightly-report', { region: 'us' }, 0);
  return { failed, completed, looped, nested, running };
}

async function planSomething(server: Server): Promise<void> {
  const plan = (body: object) => server.call('POST', '/api/schedules', body);
  const nightly = { cron: '0 3 * * *', timezone: 'Europe/Berlin', overlap: 'skip' };
  await plan({ name: 'Nightly report', path: 'demo/nightly-report', ...nightly });
  const greeting = await plan({ name: 'Greeting', path: 'examples/hello', interval_seconds: 86_400, enabled: false });
  await server.call('POST', `/api/schedules/${greeting['schedule_id']}/trigger`, {});
}

/** Name and address of every page, and of the ways of looking at an execution. */
export function pagesOf(scenes: Scenes): readonly (readonly [name: string, path: string])[] {
  const { failed, completed, looped, nested, running } = scenes;
  return [
    ['overview', '/ui/'],
    ['executions', '/ui/executions'],
    ['executions-none', '/ui/executions?q=nothing-like-this'],
    ['execution-failed', `/ui/executions/${failed}`],
    ['execution-completed', `/ui/executions/${completed}`],
    ['execution-running', `/ui/executions/${running}`],
    ['execution-unknown', '/ui/executions/999999999'],
    ['graph-running', `/ui/executions/${running}/graph`],
    ['graph-step', `/ui/executions/${failed}/graph?step=start`],
    ['statechart', `/ui/executions/${looped}/statechart`],
    ['timeline', `/ui/executions/${looped}/timeline`],
    ['timeline-running', `/ui/executions/${running}/timeline`],
    ['events', `/ui/executions/${looped}/events`],
    ['event', `/ui/executions/${failed}/events?event=6`],
    ['children', `/ui/executions/${nested}/children`],
    ['playbooks', '/ui/playbooks'],
    ['playbook', '/ui/playbooks/demo/nightly-report'],
    ['playbook-source', '/ui/playbooks/examples/errors?view=source'],
    ['playbook-versions', '/ui/playbooks/demo/nightly-report?view=versions'],
    ['playbook-runs', '/ui/playbooks/examples/hello?view=runs'],
    ['playbook-keychain', '/ui/playbooks/examples/hello?view=keychain'],
    ['editor', '/ui/editor'],
    ['schedules', '/ui/schedules'],
    ['machines', '/ui/machines'],
    ['workers', '/ui/commands'],
    ['batches', '/ui/batches'],
    ['batch-unknown', '/ui/batches/77'],
    ['credentials', '/ui/credentials'],
    ['keychain', '/ui/keychain'],
    ['recovery', '/ui/recovery'],
  ];
}
