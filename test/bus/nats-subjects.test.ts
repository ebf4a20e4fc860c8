import { expect, test } from 'vitest';
import { subjectOf, topicOf } from '../../src/bus/nats-subjects.ts';

test.each([
  ['commands.shared', 'svc.commands.shared'],
  ['commands.eu.gpu', 'svc.commands.eu.gpu'],
  ['commands.a..b.', 'svc.commands.a%2E.b%2E'],
  ['commands.a...', 'svc.commands.a%2E%2E%2E'],
  ['executions', 'svc.events.executions'],
  ['control', 'svc.events.control'],
] as const)('%s lives at %s, and comes back from there', (topic, subject) => {
  expect(subjectOf(topic)).toBe(subject);
  expect(subject).not.toMatch(/\.\.|\.$/);
  expect(topicOf(subject)).toBe(topic);
});

test.each(['svc.events.others', 'svc.events.commands.x', 'svc.commands.a/b', 'svc.commands.', 'other.commands.a', ''])(
  '%j is no subject of ours',
  (subject) => {
    expect(topicOf(subject)).toBeNull();
  },
);
