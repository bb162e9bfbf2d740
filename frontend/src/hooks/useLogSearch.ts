/** Searches a whole log file on the server, repeatedly while the file grows. */

import { useDebouncedValue } from '@mantine/hooks';
import { keepPreviousData, useQuery } from '@tanstack/react-query';

import { type FoundLines, searchLog } from '../api/jobs';

const TYPING_MS = 250;
const AGAIN_MS = 5_000;
const NOTHING_FOUND: FoundLines = { matches: [], isComplete: true };

export interface FoundInLog extends FoundLines {
  /** The text of this result; '' for none. */
  readonly text: string;
  readonly isSearching: boolean;
  readonly error: string | null;
}

export function useLogSearch(jobId: string, name: string, wanted: string, isGrowing: boolean): FoundInLog {
  const [text] = useDebouncedValue(wanted, TYPING_MS);
  const isWanted = wanted !== '' && text !== '';
  const { data, error, isPlaceholderData } = useQuery({
    queryKey: ['log-search', jobId, name, text],
    queryFn: async ({ signal }) => ({ text, ...(await searchLog(jobId, name, text, signal)) }),
    enabled: isWanted,
    placeholderData: keepPreviousData,
    refetchInterval: isGrowing ? AGAIN_MS : false,
    staleTime: 0,
  });
  if (!isWanted || data === undefined) {
    return { ...NOTHING_FOUND, text: '', isSearching: wanted !== '' && error === null, error: error?.message ?? null };
  }
  return { ...data, isSearching: isPlaceholderData || text !== wanted, error: error?.message ?? null };
}
