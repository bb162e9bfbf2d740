/** Permissions for display (the server decides), and the path to return to after a login. */

import type { Role } from '../gen/contract';

const RANK: Record<Role, number> = { viewer: 0, operator: 1, developer: 2, admin: 3 };

export const ROLES: readonly Role[] = ['viewer', 'operator', 'developer', 'admin'];

/** Cancel, stop and rescale jobs, and take savepoints. */
export function mayOperate(role: Role): boolean {
  return RANK[role] >= RANK.operator;
}

export function maySubmit(role: Role): boolean {
  return RANK[role] >= RANK.developer;
}

/** Change and test connections; users, roles, tokens of others, and the audit trail. */
export function mayAdminister(role: Role): boolean {
  return RANK[role] >= RANK.admin;
}

/** The roles that somebody may give to a token: one's own and those below. */
export function rolesUpTo(role: Role): readonly Role[] {
  return ROLES.filter((each) => RANK[each] <= RANK[role]);
}

/** Stands for this server while a path is resolved. */
const HERE = 'http://here.invalid';

/**
 * A path of this server only, as a browser resolves it: a crafted link must not lead elsewhere after the login, nor to a
 * path that something else was asked about.
 */
export function safeReturnPath(next: string | null): string {
  if (next === null || !next.startsWith('/') || !URL.canParse(next, HERE)) return '/';
  const { origin, pathname, search, hash } = new URL(next, HERE);
  if (origin !== HERE || pathname.startsWith('//') || pathname.startsWith('/login')) return '/';
  return pathname + search + hash;
}

/** Whether a path, which is resolved, belongs to Django's admin, which is no part of this page. */
export function isAdminPath(path: string): boolean {
  return path === '/admin' || path.startsWith('/admin/') || path.startsWith('/admin?');
}
