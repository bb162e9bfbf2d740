/** Operations that this tab has requested and whose results nobody has reported yet; a reload of the tab leaves them. */

import type { OperationKind } from '../model/operations';

const KEY = 'tidemark.operations';
/** More: what was never answered piles up. */
const MAX_KEPT = 20;

export interface AskedOperation {
  readonly jobId: string;
  readonly kind: OperationKind;
  readonly triggerId: string;
}

export function askedOperations(): readonly AskedOperation[] {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(KEY) ?? '[]');
    return Array.isArray(stored) ? (stored as AskedOperation[]) : [];
  } catch {
    return [];
  }
}

export function keepOperation(asked: AskedOperation): void {
  write([...without(asked.triggerId), asked].slice(-MAX_KEPT));
}

export function forgetOperation(triggerId: string): void {
  write(without(triggerId));
}

function without(triggerId: string): AskedOperation[] {
  return askedOperations().filter((each) => each.triggerId !== triggerId);
}

function write(operations: readonly AskedOperation[]): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(operations));
  } catch {
    // no storage: a reload loses the report, and nothing else
  }
}
