/**
 * Starts to measure and gives a function that says how many milliseconds of processor time this process has used since then. For
 * bounds on work without waiting: on a machine busy with other work the time on the wall grows many times over, this does not.
 */
export function processorTime(): () => number {
  const start = process.cpuUsage();
  return () => {
    const { user, system } = process.cpuUsage(start);
    return (user + system) / 1000;
  };
}

/**
 * The least of a few measurements. For bounds on growth: the same work on more, in the same process, so that a slow machine and
 * the counters of coverage weigh on both.
 */
export function leastProcessorTime(work: () => unknown, measurements = 3): number {
  // Compiled first.
  work();
  return Math.min(
    ...Array.from({ length: measurements }, () => {
      const spent = processorTime();
      work();
      return spent();
    }),
  );
}
