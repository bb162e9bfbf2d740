/** What was left out of an exported pipeline, in words. Pure. */

import { t } from '../../texts/t';

/** More places than that hide the page: rows of samples have thousands. */
const SHOWN = 8;

/** `pointers` are JSON pointers into the document, at least one. */
export function leftOutText(pointers: readonly string[]): string {
  const more = pointers.length - SHOWN;
  const places = pointers.slice(0, SHOWN).join(', ');
  return more > 0
    ? t('Users, passwords and other secrets were left out of {places} and {more} more', { places, more })
    : t('Users, passwords and other secrets were left out of {places}', { places });
}
