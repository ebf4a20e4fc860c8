/** `callboard token`: service tokens for workers, programs and people without a gateway. A token is printed once and never again. */
import { type Command, JSON_OPTION, SERVER_OPTION, UsageError } from '../command.ts';
import { EXIT } from '../exit-code.ts';
import { withAdmin } from '../remote-admin.ts';

const ROLES = ['viewer', 'operator', 'admin', 'worker'];
const DAY_MS = 86_400_000;

export const command: Command = {
  usage: 'create NAME --role ROLE | list | revoke NAME [options]',
  description:
    'create makes a token for a server with SVC_AUTH_MODE=enforce and prints it: this is the only time it can be read.\nRoles: viewer reads; operator also starts, cancels and stores; admin does everything; worker runs commands. revoke ends\na token within a second on every server. The command itself is let in by SVC_INTERNAL_TOKEN, or by an admin token in\nSVC_TOKEN.',
  options: {
    role: { type: 'string', value: 'ROLE', help: 'viewer, operator, admin or worker' },
    'expires-in-days': { type: 'string', value: 'DAYS', help: 'end of the token; without it, it has none' },
    ...SERVER_OPTION,
    ...JSON_OPTION,
  },
  words: [1, 2],
  run: async (call) => {
    const [what, name] = call.words;
    const print = (answer: object, text: string): void =>
      call.terminal.out(call.flags['json'] ? `${JSON.stringify(answer, null, 2)}\n` : `${text}\n`);
    if ((what === 'list') !== (name === undefined)) throw new UsageError('it needs create NAME, list, or revoke NAME');
    const role = call.texts['role'];
    if ((what === 'create') !== (role !== undefined)) throw new UsageError('create, and only create, needs --role');
    if (role !== undefined && !ROLES.includes(role)) throw new UsageError(`--role must be one of ${ROLES.join(', ')}`);
    const expiresAt = endOf(call.texts['expires-in-days']);
    await withAdmin(call, async (admin) => {
      if (what === 'list') {
        const { tokens } = await admin.tokens();
        const rows = tokens.map((each) => `${each.name.padEnd(32)} ${each.role.padEnd(9)} ${stateOf(each)}`);
        print({ tokens }, rows.length === 0 ? 'There are no service tokens.' : rows.join('\n'));
      } else if (what === 'create' && name !== undefined && role !== undefined) {
        const made = await admin.createToken({ name, role, ...(expiresAt === null ? {} : { expires_at: expiresAt }) });
        if (!call.flags['json'])
          call.terminal.err(`The token of ${made.name} (${made.role}); it is not shown again:\n`);
        print(made, made.token);
      } else if (what === 'revoke' && name !== undefined) {
        const ended = await admin.revokeToken(name);
        print(ended, ended.revoked ? `The token of ${name} is revoked.` : `The token of ${name} had ended before.`);
      } else throw new UsageError(`it does not know '${what}'`);
    });
    return EXIT.ok;
  },
};

/** Throws UsageError. */
function endOf(days: string | undefined): string | null {
  if (days === undefined) return null;
  const number = Number(days);
  if (!/^\d{1,5}(\.\d+)?$/.test(days) || number <= 0)
    throw new UsageError('--expires-in-days must be a number of days');
  return new Date(Date.now() + number * DAY_MS).toISOString();
}

function stateOf(token: {
  readonly expires_at: string | null;
  readonly revoked_at: string | null;
  readonly last_used_at: string | null;
}): string {
  if (token.revoked_at !== null) return `revoked ${token.revoked_at}`;
  if (token.expires_at !== null && Date.parse(token.expires_at) <= Date.now()) return `expired ${token.expires_at}`;
  const used = token.last_used_at === null ? 'never used' : `used ${token.last_used_at}`;
  return token.expires_at === null ? used : `${used}, until ${token.expires_at}`;
}
