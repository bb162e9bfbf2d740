/** Saves a whole log file, read piece by piece because the server limits the size of a response. */

import { fetchLog } from './jobs';

const PIECE_BYTES = 1024 * 1024;

export async function downloadLog(jobId: string, name: string): Promise<void> {
  const pieces: string[] = [];
  let offset = 0;
  for (;;) {
    const part = await fetchLog(jobId, name, offset, PIECE_BYTES);
    pieces.push(part.text);
    if (part.next_offset <= offset || part.next_offset >= part.size) break;
    offset = part.next_offset;
  }
  const url = URL.createObjectURL(new Blob(pieces, { type: 'text/plain' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = `${jobId.slice(0, 8)}-${name.replaceAll('/', '-')}.txt`;
  link.click();
  URL.revokeObjectURL(url);
}
