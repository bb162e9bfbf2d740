/** What an autoscaler wants and has decided, for display. */

import type { JobDocument, ScalingDecision } from '../gen/live';

export interface Wanted {
  readonly id: string;
  readonly name: string;
  readonly parallelism: number;
  readonly wanted: number;
  readonly reason: string;
}

/** The vertices that the autoscaler has an opinion about, in the job's order; none while it is off or measures. */
export function wantedOf(job: JobDocument): Wanted[] {
  const { enabled = false, vertices = {} } = job.autoscaler ?? {};
  if (!enabled) return [];
  return job.vertices.flatMap(({ id, name, parallelism }) => {
    const decision = vertices[id];
    return decision === undefined ? [] : [{ id, name, parallelism, ...decision }];
  });
}

/** window from 2 to 4 */
export function changeText({ name, before, after }: ScalingDecision['changes'][string]): string {
  return `${name} from ${before} to ${after}`;
}
