/** How the command line ends: what a script can rely on. */
export const EXIT = {
  ok: 0,
  /** The execution failed. */
  failed: 1,
  /** Wrong use, or a playbook that does not pass its checks. */
  usage: 2,
  cancelled: 3,
  /** A time limit passed, or a server or database could not be used. */
  infrastructure: 4,
  /** Bad settings. */
  config: 78,
} as const;
