import { expect, test } from 'vitest';

import { EDITS } from './testEdits';

const SOURCES: Record<string, string> = import.meta.glob(['../../**/*.{ts,tsx}', '!../../**/*.test.{ts,tsx}'], {
  query: '?raw',
  import: 'default',
  eager: true,
});

test('random edits are all the ways in which the editor changes a document', () => {
  const found = Object.entries(SOURCES).flatMap(([path, text]) =>
    [...text.matchAll(/\btransact\(\s*(?:t\(\s*)?(`[^`]*`|'[^']*'|[\w.]+)/g)].map(
      ([, label]) => `${path.split('/').at(-1) ?? ''}: ${label ?? ''}`,
    ),
  );
  expect([...new Set(found)].sort()).toEqual(Object.keys(EDITS).sort());
});
