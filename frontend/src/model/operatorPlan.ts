/** The operators that a program defines, and where. */

import type { OperatorPlan, PlannedOperator } from '../gen/contract';

export interface ProgramPlace {
  readonly file: string;
  /** From 1. */
  readonly line: number;
}

/** Where a "file:line" is; null: it is none. */
export function placeOf(definedAt: string): ProgramPlace | null {
  const found = /^(.+):([1-9]\d*)$/.exec(definedAt);
  const [, file = '', line = ''] = found ?? [];
  return found === null ? null : { file, line: Number(line) };
}

/** The operators that run in one chain with an operator, itself among them, in the order of the plan. */
export function chainOf(plan: OperatorPlan, { vertex }: PlannedOperator): readonly PlannedOperator[] {
  return plan.nodes.filter((node) => node.vertex === vertex);
}
