/** What the components of one editor share of its preview and its test runs. */

import { type ReactNode, useState } from 'react';

import { runTest, startPreview, stopPreview } from '../../api/pipelines';
import { PreviewContext, StaleContext, TestRunsContext, useStaleNodes } from '../../hooks/usePreview';
import { createPreview } from '../../store/preview';
import { createTestRuns } from '../../store/testRuns';
import { PreviewFeed } from './PreviewFeed';

export function PreviewScope({ children }: { readonly children: ReactNode }) {
  const [tests] = useState(() => createTestRuns(runTest));
  const [preview] = useState(() => createPreview({ start: startPreview, stop: stopPreview }));
  return (
    <PreviewContext value={preview}>
      <TestRunsContext value={tests}>
        <Stale>{children}</Stale>
        <PreviewFeed />
      </TestRunsContext>
    </PreviewContext>
  );
}

function Stale({ children }: { readonly children: ReactNode }) {
  return <StaleContext value={useStaleNodes()}>{children}</StaleContext>;
}
