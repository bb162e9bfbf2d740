// @vitest-environment happy-dom
import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, expect, test } from 'vitest';

import { TagList } from './TagList';

afterEach(cleanup);

test('a tag leads to the jobs that have it', () => {
  render(<TagList tags={['prod', 'team=a&b']} />, { wrapper: MemoryRouter });
  const links = screen.getAllByRole('link').map((link) => link.getAttribute('href'));
  expect(links).toEqual(['/?filter=prod', '/?filter=team%3Da%26b']);
});
