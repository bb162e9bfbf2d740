// @vitest-environment happy-dom
import { cleanup, render } from '@testing-library/react';
import { afterEach, expect, test } from 'vitest';

import { metrics } from '../../model/testData';
import { LoadBar } from './LoadBar';

afterEach(cleanup);

test('the numbers stand beside the colours', () => {
  const load = metrics({ busy: 480, back_pressured: 20, idle: 500 });
  const { container } = render(<LoadBar metrics={load} isRunning />);
  expect(container.textContent).toBe('Busy48%Backpressured2%Idle50%');
});

test('what has ended has no load', () => {
  const { container } = render(<LoadBar metrics={metrics()} isRunning={false} />);
  expect(container.textContent).toBe('Busy–Backpressured–Idle–');
});
