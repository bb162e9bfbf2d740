/** Prefix of the server's routes and of the page's own, as the index was served with, and the token for writes. */

import { basePathOf, cookieValue, csrfCookie } from '../model/basePath';

// modules are also loaded without a document, by tests
const named = typeof document === 'undefined' ? undefined : document.querySelector('meta[name="base-path"]');
const BASE_PATH = basePathOf(named?.getAttribute('content'));

/** Ends with a slash. */
export const ROOT = `${BASE_PATH}/`;
/** Where the page is; ends with a slash. */
export const PAGE_ROOT = `${ROOT}ui/`;

export function csrfToken(): string {
  return cookieValue(document.cookie, csrfCookie(BASE_PATH));
}
