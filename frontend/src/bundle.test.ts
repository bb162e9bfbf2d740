// What a browser loads before a page is useful, as gzip of the built files.
import { gzipSync } from 'node:zlib';

import { type Rolldown, build } from 'vite';
import { beforeAll, expect, test, vi } from 'vitest';

const BUILD_MS = 120_000;

let chunks: ReadonlyMap<string, Rolldown.OutputChunk>;

beforeAll(async () => {
  // vitest's own would build React for tests
  vi.stubEnv('NODE_ENV', 'production');
  const result = (await build({
    mode: 'production',
    logLevel: 'error',
    build: { write: false },
  })) as Rolldown.RolldownOutput;
  vi.unstubAllEnvs();
  const found = result.output.filter((file) => file.type === 'chunk');
  chunks = new Map(found.map((chunk) => [chunk.fileName, chunk]));
}, BUILD_MS);

/** kB of these modules' chunks and of all that they import at once. */
function loaded(...modules: readonly string[]): number {
  const wanted = new Set<string>();
  const add = (name: string): void => {
    if (wanted.has(name)) return;
    wanted.add(name);
    chunks.get(name)?.imports.forEach(add);
  };
  for (const module of modules) {
    const chunk = [...chunks.values()].find(({ facadeModuleId }) => facadeModuleId?.endsWith(module) === true);
    if (chunk === undefined) throw new Error(`no chunk begins with ${module}`);
    add(chunk.fileName);
  }
  const sizes = [...wanted].map((name) => gzipSync(chunks.get(name)?.code ?? '').length);
  return sizes.reduce((sum, size) => sum + size, 0) / 1000;
}

test('the overview is useful after 230 kB', () => {
  const size = loaded('index.html');
  console.log(`overview: ${size.toFixed(1)} kB`);
  expect(size).toBeGreaterThan(100);
  expect(size).toBeLessThanOrEqual(230);
});

test('a job is useful after 350 kB', () => {
  const size = loaded('index.html', 'routes/JobPage.tsx');
  console.log(`job page: ${size.toFixed(1)} kB`);
  expect(size).toBeGreaterThan(loaded('index.html') + 50);
  expect(size).toBeLessThanOrEqual(350);
});

test('the canvas of the editor is useful after 350 kB', () => {
  const size = loaded('index.html', 'routes/EditorPage.tsx');
  console.log(`editor: ${size.toFixed(1)} kB`);
  expect(size).toBeGreaterThan(loaded('index.html') + 50);
  expect(size).toBeLessThanOrEqual(350);
});
