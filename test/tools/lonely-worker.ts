/** A process that runs endless tasks of every kind that starts processes, and prints the pid of each. */
import { openTools } from './harness.ts';

const tools = openTools();
const [folder = ''] = process.argv.slice(2);
const own = `${folder}/fresh.pid`;
void tools.run('shell', { command: `echo $$ > ${folder}/shell.pid; while :; do :; done` });
void tools.run('python', { code: `open("${folder}/fork.pid", "w").write(str(os.getpid()))\nwhile True: pass` });
const fresh = { code: `open("${own}", "w").write(str(os.getpid()))\nwhile True: pass`, env: { PYTHONUTF8: '1' } };
void tools.run('python', fresh);
void tools.run('javascript', { code: 'for (;;);' });
