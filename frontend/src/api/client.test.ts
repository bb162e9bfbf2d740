// @vitest-environment happy-dom
import { afterEach, expect, test } from 'vitest';

import { ApiError, request } from './client';

const original = globalThis.fetch;
let sent: RequestInit | undefined;

function answer(status: number, body: string): void {
  globalThis.fetch = (_url, options) => {
    sent = options;
    return Promise.resolve(new Response(body, { status }));
  };
}

afterEach(() => {
  globalThis.fetch = original;
});

async function failure(): Promise<ApiError> {
  try {
    await request('/x');
  } catch (error) {
    if (error instanceof ApiError) return error;
  }
  throw new Error('the request did not fail with an ApiError');
}

test('both shapes of errors become one message', async () => {
  answer(404, '{"errors": ["no such job"]}');
  expect(await failure()).toMatchObject({ status: 404, message: 'no such job', isLoginNeeded: false });
  answer(401, '{"errors": [{"code": "x", "field": null, "message": "log in"}]}');
  expect(await failure()).toMatchObject({ status: 401, message: 'log in', isLoginNeeded: true });
  answer(502, '<html>Bad gateway</html>');
  expect((await failure()).message).toBe('The server failed (status 502).');
});

test('writes carry the CSRF token, and an empty answer is no error', async () => {
  document.cookie = 'csrftoken=abc123';
  answer(202, '');
  expect(await request('/x', { method: 'PATCH' })).toBeUndefined();
  expect(sent?.headers).toMatchObject({ 'X-CSRFToken': 'abc123' });
});

test('a server that is not there has status 0', async () => {
  globalThis.fetch = () => Promise.reject(new TypeError('fetch failed'));
  expect(await failure()).toMatchObject({ status: 0, message: 'The server cannot be reached.' });
});
