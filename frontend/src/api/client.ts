/**
 * The only HTTP client: session cookie, CSRF header, and errors of both formats as ApiError. Routes, what they take and
 * what they answer are the server's types (gen/contract).
 */

import type { Routes } from '../gen/contract';
import { t } from '../texts/t';
import { ROOT, csrfToken } from './root';

export type Route = keyof Routes;
export type Answer<R extends Route> = Routes[R]['answer'];

/** A list of texts is a path of several segments. */
type Path<P> = { readonly [K in keyof P]: string | readonly string[] };
type WithPath<P> = keyof P extends never ? unknown : { readonly path: Path<P> };
type WithQuery<Q> = keyof Q extends never
  ? unknown
  : Partial<Q> extends Q
    ? { readonly query?: Q }
    : { readonly query: Q };
type WithBody<B> = B extends undefined ? unknown : { readonly body: B };
/** What a route takes, and a signal that ends the request. */
export type Given<R extends Route> = WithPath<Routes[R]['path']> &
  WithQuery<Routes[R]['query']> &
  WithBody<Routes[R]['body']> & { readonly signal?: AbortSignal };

export class ApiError extends Error {
  /** HTTP status; 0 if the server could not be reached. */
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
  }

  get isLoginNeeded(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

interface Parts {
  readonly path?: Record<string, string | readonly string[]>;
  readonly query?: Record<string, string | number | undefined>;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/** Returns the answer of a route. Throws ApiError for everything but a 2xx. */
export async function call<R extends Route>(
  route: R,
  ...[given]: Partial<Given<R>> extends Given<R> ? [given?: Given<R>] : [given: Given<R>]
): Promise<Answer<R>> {
  const { body, signal, ...parts } = (given ?? {}) as Parts;
  const [method = 'GET'] = route.split(' ');
  const url = urlOf(route, parts);
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (method !== 'GET') headers['X-CSRFToken'] = csrfToken();
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      headers,
      credentials: 'same-origin',
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, t('The server cannot be reached.'));
  }
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, errorMessage(response.status, text));
  return JSON.parse(text) as Answer<R>;
}

/** The URL of a route with its parameters filled in. */
function urlOf(route: Route, { path = {}, query = {} }: Parts): string {
  const [, pattern = ''] = route.split(' ');
  const filled = pattern.slice(1).replace(/{(\w+)}/g, (_, name: string) => {
    const value = path[name] ?? '';
    return (typeof value === 'string' ? [value] : value).map(encodeURIComponent).join('/');
  });
  const given = Object.entries(query).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  const search = new URLSearchParams(given).toString();
  return `${ROOT}${filled}${search === '' ? '' : `?${search}`}`;
}

/** Uploads a file and reports progress (0..1), which fetch cannot. */
export function upload(file: File, onProgress: (share: number) => void): Promise<Answer<'POST /v1/jars/upload'>> {
  const route = 'POST /v1/jars/upload';
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    const form = new FormData();
    form.append('jarfile' satisfies keyof Routes[typeof route]['body'], file, file.name);
    sending.upload.onprogress = (event) => {
      if (event.lengthComputable && event.total > 0) onProgress(event.loaded / event.total);
    };
    sending.onerror = () => reject(new ApiError(0, t('The server cannot be reached.')));
    sending.onload = () => {
      if (sending.status >= 200 && sending.status < 300)
        resolve(JSON.parse(sending.responseText) as Answer<typeof route>);
      else reject(new ApiError(sending.status, errorMessage(sending.status, sending.responseText)));
    };
    sending.open('POST', urlOf(route, {}));
    sending.setRequestHeader('Accept', 'application/json');
    sending.setRequestHeader('X-CSRFToken', csrfToken());
    sending.send(form);
  });
}

/** `{"errors": ["…"]}` of Flink's routes, `{"errors": [{"message": "…"}]}` of Tidemark's own; else the status. */
function errorMessage(status: number, text: string): string {
  try {
    const { errors } = JSON.parse(text) as { errors?: (string | { message?: string })[] };
    const messages = (errors ?? []).map((error) => (typeof error === 'string' ? error : (error.message ?? '')));
    const joined = messages.filter(Boolean).join('\n');
    if (joined !== '') return joined;
  } catch {
    // not JSON: for example a proxy's page
  }
  return status >= 500
    ? t('The server failed (status {status}).', { status })
    : t('The server refused (status {status}).', { status });
}
