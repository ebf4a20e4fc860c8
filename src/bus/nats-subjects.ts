/**
 * Where a topic lives on NATS (api 5.4): announcements of commands by pool, in reach of the stream; everything else beside
 * it. Dots of a pool's name become levels, as filters of subscribers expect; a dot that would make an empty level, which
 * NATS refuses, is written `%2E`.
 */
import type { BusTopic } from '../../actors/ports.ts';
import { isTopic } from './message.ts';

export const COMMAND_SUBJECTS = 'svc.commands.>';
export const EVENT_SUBJECTS = 'svc.events.*';

const COMMANDS = 'svc.commands.';
const EVENTS = 'svc.events.';
const LONE_DOT = /\.(?=\.|$)/g;

export function subjectOf(topic: BusTopic): string {
  if (!topic.startsWith('commands.')) return EVENTS + topic;
  return COMMANDS + topic.slice('commands.'.length).replace(LONE_DOT, '%2E');
}

/** Null for a subject that is none of ours. */
export function topicOf(subject: string): BusTopic | null {
  const text = subject.startsWith(COMMANDS)
    ? `commands.${subject.slice(COMMANDS.length).replaceAll('%2E', '.')}`
    : subject.startsWith(EVENTS)
      ? subject.slice(EVENTS.length)
      : '';
  return isTopic(text) && text.startsWith('commands.') === subject.startsWith(COMMANDS) ? text : null;
}
