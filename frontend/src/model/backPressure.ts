/** Flink's levels of back-pressure, and the vertex that most likely causes it. */

import type { Vertex } from '../gen/live';

export type BackPressureLevel = 'OK' | 'LOW' | 'HIGH';

/** Up to 10 % is OK, up to 50 % LOW, above HIGH. */
export function backPressureLevel(backPressuredMs: number): BackPressureLevel {
  if (backPressuredMs <= 100) return 'OK';
  return backPressuredMs <= 500 ? 'LOW' : 'HIGH';
}

/**
 * The likely culprit: a busy vertex that is not back-pressured but consumes from one that is. Null if there is none.
 */
export function likelyBottleneck(vertices: readonly Vertex[]): Vertex | null {
  const byId = new Map(vertices.map((vertex) => [vertex.id, vertex]));
  const culprits = vertices.filter(
    (vertex) =>
      backPressureLevel(vertex.metrics.back_pressured) !== 'HIGH' &&
      vertex.metrics.busy > vertex.metrics.back_pressured &&
      vertex.inputs.some((input) => {
        const upstream = byId.get(input.id);
        return upstream !== undefined && backPressureLevel(upstream.metrics.back_pressured) === 'HIGH';
      }),
  );
  return culprits.reduce<Vertex | null>(
    (worst, vertex) => (worst === null || vertex.metrics.busy > worst.metrics.busy ? vertex : worst),
    null,
  );
}
