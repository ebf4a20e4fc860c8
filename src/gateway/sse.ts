/** Event streams of the server, read as they come: whole frames, within a limit. */

export interface SseFrame {
  readonly event: string;
  readonly data: string;
}

/** Feeds on chunks of text; answers the frames that are whole by now. Throws RangeError for a frame beyond the limit. */
export function createSseReader(charsMax: number): (chunk: string) => readonly SseFrame[] {
  let rest = '';
  return (chunk) => {
    const parts = (rest + chunk).split('\n\n');
    rest = parts.pop() ?? '';
    if (rest.length > charsMax) throw new RangeError('a frame is too long');
    return parts.map(frameOf).filter((frame) => frame.data !== '' || frame.event !== '');
  };
}

function frameOf(text: string): SseFrame {
  let event = '';
  const data: string[] = [];
  for (const line of text.split('\n')) {
    if (line.startsWith('event: ')) event = line.slice(7);
    else if (line.startsWith('data: ')) data.push(line.slice(6));
  }
  return { event, data: data.join('\n') };
}
