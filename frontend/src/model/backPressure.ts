/** Flink's levels of back-pressure. */

export type BackPressureLevel = 'OK' | 'LOW' | 'HIGH';

/** Up to 10 % is OK, up to 50 % LOW, above HIGH. */
export function backPressureLevel(backPressuredMs: number): BackPressureLevel {
  if (backPressuredMs <= 100) return 'OK';
  return backPressuredMs <= 500 ? 'LOW' : 'HIGH';
}
