/** What an autoscaler wants and has decided, for display. */

import type { JobAutoscaler, ScalingDecision } from '../gen/contract';
import { t } from '../texts/t';
import type { Vertex } from './job';

export interface Wanted {
  readonly id: string;
  readonly name: string;
  readonly parallelism: number;
  readonly wanted: number;
  readonly reason: string;
}

/** The vertices that the autoscaler has an opinion about, in the job's order; none while it is off or measures. */
export function wantedOf(autoscaler: JobAutoscaler, all: readonly Vertex[]): Wanted[] {
  const { enabled = false, vertices = {} } = autoscaler;
  if (!enabled) return [];
  return all.flatMap(({ id, name, parallelism }) => {
    const decision = vertices[id];
    return decision === undefined ? [] : [{ id, name, parallelism, ...decision }];
  });
}

/** window from 2 to 4 */
export function changeText({ name, before, after }: ScalingDecision['changes'][string]): string {
  return t('{name} from {before} to {after}', { name, before, after });
}
