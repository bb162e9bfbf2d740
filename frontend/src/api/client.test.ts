// @vitest-environment happy-dom
import { afterEach, expect, test } from 'vitest';

import { ApiError, call } from './client';

const original = globalThis.fetch;
let sent: RequestInit | undefined;
let requested = '';

function answer(status: number, body: string): void {
  globalThis.fetch = (url, options) => {
    requested = url as string;
    sent = options;
    return Promise.resolve(new Response(body, { status }));
  };
}

afterEach(() => {
  globalThis.fetch = original;
});

async function failure(): Promise<ApiError> {
  try {
    await call('GET /v1/config');
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

test('writes carry the CSRF token; parameters are encoded', async () => {
  document.cookie = 'csrftoken=abc123';
  answer(202, '{}');
  await call('PATCH /v1/jobs/{job_id}', { path: { job_id: 'a/b' }, query: { mode: 'cancel' } });
  expect(requested).toBe('/v1/jobs/a%2Fb?mode=cancel');
  expect(sent?.headers).toMatchObject({ 'X-CSRFToken': 'abc123' });
});

test('a server that is not there has status 0', async () => {
  globalThis.fetch = () => Promise.reject(new TypeError('fetch failed'));
  expect(await failure()).toMatchObject({ status: 0, message: 'The server cannot be reached.' });
});

test('a list is a path of several segments, and what is undefined is no parameter', async () => {
  answer(200, '{}');
  const path = { job_id: 'a', name: ['attempt-1', 'slot 0.log'] };
  await call('GET /api/v1/jobs/{job_id}/logs/{name}', { path, query: { offset: -5, limit: undefined } });
  expect(requested).toBe('/api/v1/jobs/a/logs/attempt-1/slot%200.log?offset=-5');
});

test('the compiler knows the routes, what they take and what they answer', () => {
  const uses = () => [
    // @ts-expect-error -- no such route
    call('GET /v1/nothing'),
    // @ts-expect-error -- a parameter is missing
    call('GET /v1/jobs/{job_id}/config'),
    // @ts-expect-error -- no such member of the body
    call('PUT /api/v1/jobs/{job_id}/autoscaler', { path: { job_id: 'a' }, body: { enable: true } }),
    // @ts-expect-error -- no such member of the answer
    async () => String((await call('GET /v1/config')).version),
  ];
  expect(uses).toBeTypeOf('function');
});
