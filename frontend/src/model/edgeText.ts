/** What an edge of a job has no room for on a graph, in lines for its title. Pure. */

import { t } from '../texts/t';
import { formatByteRate, formatBytes, formatCount } from './format';

/** Figures of an edge; null: unknown. */
export interface EdgeText {
  readonly records: number;
  readonly bytesPerSecond: number | null;
  readonly queuedBytes: number | null;
  readonly queuedBuffers: number | null;
  /** Whether both ends run in one chain, where nothing is sent and nothing waits. */
  readonly isChained?: boolean;
}

export function edgeText({ records, bytesPerSecond, queuedBytes, queuedBuffers, isChained }: EdgeText): string {
  const lines = [t('{records} records', { records: formatCount(records) })];
  if (isChained === true) lines.push(t('In one task: nothing is sent, nothing waits'));
  if (bytesPerSecond !== null) lines.push(formatByteRate(bytesPerSecond));
  if (queuedBytes !== null)
    lines.push(
      t('{queuedBytes} queued, buffers: {queuedBuffers}', {
        queuedBytes: formatBytes(queuedBytes),
        queuedBuffers: formatCount(queuedBuffers),
      }),
    );
  return lines.join('\n');
}

/** A number that grows by one with each change while records flow; null: none flow. `now` is the document's, epoch ms. */
export function flowAt(now: number, perSecond: number): number | null {
  return perSecond > 0 ? Math.floor(now / BETWEEN_CHANGES_MS) : null;
}

/** The server sends no more often. */
const BETWEEN_CHANGES_MS = 500;
