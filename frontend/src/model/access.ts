/** Permissions for display (the server decides), and the path to return to after a login. */

import type { Role } from '../gen/contract';

const RANK: Record<Role, number> = { viewer: 0, operator: 1, developer: 2, admin: 3 };

/** Cancel, stop and rescale jobs, and take savepoints. */
export function mayOperate(role: Role): boolean {
  return RANK[role] >= RANK.operator;
}

export function maySubmit(role: Role): boolean {
  return RANK[role] >= RANK.developer;
}

/** Change and test connections. */
export function mayAdminister(role: Role): boolean {
  return RANK[role] >= RANK.admin;
}

/** A path of this page only: a crafted link must not lead elsewhere after the login. */
export function safeReturnPath(next: string | null): string {
  if (next === null || !next.startsWith('/') || /^\/[/\\]/.test(next) || next.startsWith('/login')) return '/';
  return next;
}
