// @vitest-environment happy-dom
import { act, cleanup, renderHook } from '@testing-library/react';
import type { ReactNode } from 'react';
import { MemoryRouter, useLocation } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import { useOpenItems } from './useOpenItems';

afterEach(cleanup);

function At7({ children }: { readonly children: ReactNode }) {
  return <MemoryRouter initialEntries={['/?tab=checkpoints&checkpoint=7,8']}>{children}</MemoryRouter>;
}

test('items open and close in the address, and other parameters stay', () => {
  const { result } = renderHook(() => ({ items: useOpenItems('checkpoint'), search: useLocation().search }), {
    wrapper: At7,
  });
  const toggle = (item: string) => act(() => result.current.items[1](item));
  expect([...result.current.items[0]]).toEqual(['7', '8']);
  toggle('7');
  expect([...result.current.items[0]]).toEqual(['8']);
  toggle('9');
  expect([...result.current.items[0]]).toEqual(['8', '9']);
  toggle('8');
  toggle('9');
  expect(result.current.search).toBe('?tab=checkpoints');
});
