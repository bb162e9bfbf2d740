/** The current session. It is checked again whenever the server refuses something. */

import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';

import { fetchConfig, fetchSession, login, logout } from '../api/session';
import type { Role } from '../gen/contract';

export const SESSION_KEY = ['session'] as const;

/** `data` is null if nobody is logged in, undefined while unknown. */
export function useSession() {
  return useQuery({ queryKey: SESSION_KEY, queryFn: fetchSession, staleTime: 60_000 });
}

export function useRole(): Role {
  return useSession().data?.user.role ?? 'viewer';
}

/** Why this cluster takes no programs from anybody; empty: it does, or this is not known yet. */
export function useSubmissionRefusal(): string {
  return useSession().data?.submission ?? '';
}

export function useLogin() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: login,
    onSuccess: (session) => client.setQueryData(SESSION_KEY, session),
  });
}

export function useLogout() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: logout,
    onSuccess: () => {
      client.setQueryData(SESSION_KEY, null);
      // nothing of this user may be shown to the next one
      client.removeQueries({ predicate: (query) => query.queryKey[0] !== SESSION_KEY[0] });
    },
  });
}

/** The server's version, without its leading v; null until it is known. */
export function useServerVersion(): string | null {
  const { data } = useQuery({ queryKey: ['config'], queryFn: fetchConfig, staleTime: Infinity });
  return data?.['tidemark-version'] ?? null;
}
