/** The thread that reads large documents (document-reader.ts): one message in, one reading out. */
import { parentPort } from 'node:worker_threads';
import { type ReadingOptions, readCatalogDocument } from '../../machines/playbook/catalog-document.ts';

export interface ReadingTask {
  readonly text: string;
  readonly options: ReadingOptions;
}

parentPort?.on('message', ({ text, options }: ReadingTask) => {
  parentPort?.postMessage(readCatalogDocument(text, options));
});
