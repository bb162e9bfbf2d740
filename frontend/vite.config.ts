import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

// `npm run dev` proxies to a running web process (or the mock server) named by TIDEMARK_URL.
const backend = process.env.TIDEMARK_URL ?? 'http://127.0.0.1:8000';

export default defineConfig({
  base: '/ui/',
  // the index is served with the base path in its paths; the files that it names find each other wherever they are
  experimental: { renderBuiltUrl: (_, { hostType }) => (hostType === 'html' ? undefined : { relative: true }) },
  plugins: [react()],
  build: {
    target: 'es2023',
    // a strict content security policy allows no data: fonts or images
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  server: {
    proxy: {
      '/api': backend,
      '/v1': backend,
      '/login': backend,
      '/admin': backend,
      '/static': backend,
      '/ws': { target: backend, ws: true },
    },
  },
  test: {
    environment: 'node',
    include: ['src/**/*.test.{ts,tsx}'],
  },
});
