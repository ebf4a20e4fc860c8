/** The files of the GUI for the process that serves them: found or built once, in the background, then kept. */
import { builtGui, type GuiFiles, guiFolders, readGuiFiles } from '../gui/build/built-gui.ts';
import type { Log } from '../log.ts';

/** Begins at once. The answer rejects when there is no GUI to be had, and the log says why. */
export function loadGui(dataDir: string, log: Log, stopping: AbortSignal): () => Promise<GuiFiles> {
  const startedAt = performance.now();
  const files = builtGui(guiFolders(dataDir), stopping).then(readGuiFiles);
  files.then(
    () => log.debug('The GUI is ready', { duration_ms: Math.round(performance.now() - startedAt) }),
    (error: unknown) => {
      if (!stopping.aborted) log.warn('The GUI could not be built', { error });
    },
  );
  return () => files;
}
