/** Where the server's routes are: behind a proxy, a base path may stand before all of them. */

/** Name of the cookie with the CSRF token: each base path has its own, as browsers send those of /a to /a/b, too. */
export function csrfCookie(basePath: string): string {
  return `csrftoken${basePath.replaceAll('/', '-')}`;
}

/** The value of a cookie; '' if there is none. */
export function cookieValue(cookies: string, name: string): string {
  const found = cookies.split(/;\s*/).find((cookie) => cookie.startsWith(`${name}=`));
  return found === undefined ? '' : decodeURIComponent(found.slice(name.length + 1));
}

/** The base path that the index names ("/tidemark/"), without the slash at its end; '' at the root. */
export function basePathOf(named: string | null | undefined): string {
  return (named ?? '').replace(/\/$/, '');
}
