// @vitest-environment happy-dom
import { act, cleanup, renderHook } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';

import { useWhenReady } from './useWhenReady';

afterEach(cleanup);

function form(isReady: boolean, about = '') {
  const done: string[] = [];
  const hook = renderHook((props) => useWhenReady(props.isReady, () => done.push(props.about), props.about), {
    initialProps: { isReady, about },
  });
  return {
    done,
    become: (ready: boolean, other = about) => hook.rerender({ isReady: ready, about: other }),
    ask: () => act(() => hook.result.current.ask()),
    isWaiting: () => hook.result.current.isWaiting,
  };
}

test('what is asked of a form that is ready is done at once', () => {
  const { ask, done, isWaiting } = form(true, 'a');
  ask();
  ask();
  expect([done, isWaiting()]).toEqual([['a', 'a'], false]);
});

test('what is asked of a form that loads is done once, when it has loaded', () => {
  const { ask, become, done, isWaiting } = form(false, 'a');
  become(true);
  become(false);
  expect(done).toEqual([]);
  ask();
  ask();
  expect([done, isWaiting()]).toEqual([[], true]);
  become(true);
  expect([done, isWaiting()]).toEqual([['a'], false]);
  become(false);
  become(true);
  expect([done, isWaiting()]).toEqual([['a'], false]);
});

test('what was asked about something else is forgotten, also when that comes back', () => {
  const { ask, become, done, isWaiting } = form(false, 'a');
  ask();
  become(false, 'ab');
  expect(isWaiting()).toBe(false);
  become(false, 'a');
  become(true, 'a');
  expect(done).toEqual([]);
});
