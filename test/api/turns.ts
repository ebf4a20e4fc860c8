/** How often others got their turn while something was done: a piece of work that keeps the event loop leaves none. */
export async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let isBusy = true;
  const count = () => {
    turns += 1;
    if (isBusy) setImmediate(count);
  };
  setImmediate(count);
  await work();
  isBusy = false;
  return turns;
}
