/** Where work is that is not saved as a version, in words. */

import { t } from '../../texts/t';

export type SaveState = 'saved' | 'pending' | 'saving' | 'failed';

/**
 * Says where a draft is. `isKept`: this browser has a copy of what is not on the server; `savedAt`: the time at which
 * the server took it, null if that was before the page was opened.
 */
export function whereKept(state: SaveState, isKept: boolean, savedAt: string | null): string {
  if (state === 'saved') return savedAt === null ? 'saved' : t('saved {savedAt}', { savedAt });
  if (state === 'failed') return isKept ? t('kept in this browser only') : t('on this page only');
  return isKept ? t('kept in this browser') : t('not saved yet');
}
