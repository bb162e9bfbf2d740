/** The only HTTP client: session cookie, CSRF header, and errors of both formats as ApiError. */

/** Prefix of the server's routes: the part of the base path before `ui/`. */
export const ROOT = import.meta.env.BASE_URL.replace(/ui\/$/, '');
export const FLINK = `${ROOT}v1`;
export const PRODUCT = `${ROOT}api/v1`;

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

interface RequestOptions {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/** Returns the parsed JSON of the response. Throws ApiError for everything but a 2xx. */
export async function request<T>(url: string, options: RequestOptions = {}): Promise<T> {
  const { method = 'GET', body, signal } = options;
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
    throw new ApiError(0, 'The server cannot be reached.');
  }
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, errorMessage(response.status, text));
  return (text === '' ? undefined : JSON.parse(text)) as T;
}

/** Uploads a file and reports progress (0..1), which fetch cannot. */
export function upload<T>(url: string, field: string, file: File, onProgress: (share: number) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const sending = new XMLHttpRequest();
    const form = new FormData();
    form.append(field, file, file.name);
    sending.upload.onprogress = (event) => {
      if (event.lengthComputable && event.total > 0) onProgress(event.loaded / event.total);
    };
    sending.onerror = () => reject(new ApiError(0, 'The server cannot be reached.'));
    sending.onload = () => {
      if (sending.status >= 200 && sending.status < 300) resolve(JSON.parse(sending.responseText) as T);
      else reject(new ApiError(sending.status, errorMessage(sending.status, sending.responseText)));
    };
    sending.open('POST', url);
    sending.setRequestHeader('Accept', 'application/json');
    sending.setRequestHeader('X-CSRFToken', csrfToken());
    sending.send(form);
  });
}

function csrfToken(): string {
  const match = /(?:^|;\s*)csrftoken=([^;]+)/.exec(document.cookie);
  return decodeURIComponent(match?.[1] ?? '');
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
  return status >= 500 ? `The server failed (status ${status}).` : `The server refused (status ${status}).`;
}
