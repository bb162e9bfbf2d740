/** Which of a job's snapshots outlive it, by how it is ended. Pure. */

import type { RestorePoint } from '../gen/contract';

/** How a job is ended before its program is started again. */
export type Ending = RestorePoint['deleted_by'][number];

/** Those that are left once the job has been ended so; null: it has ended, or goes on. */
export function outliving<P extends Pick<RestorePoint, 'deleted_by'>>(
  points: readonly P[],
  ending: Ending | null,
): P[] {
  return points.filter(({ deleted_by: by }) => ending === null || !by.includes(ending));
}
