/** What can be done with the rows of a port: pin those of a source, edit them, and make a test of what came out. */

import { Button } from '@mantine/core';
import { IconPin, IconPinnedOff, IconTestPipe } from '@tabler/icons-react';
import { useState } from 'react';

import { runTest } from '../../api/pipelines';
import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { usePreview } from '../../hooks/usePreview';
import { nameOf } from '../../model/pipeline/document';
import { type Place, placeName } from '../../model/pipeline/preview';
import { isWatermark } from '../../model/pipeline/rowGrid';
import { sampleOf, sampleRows, withSample } from '../../model/pipeline/samples';
import { expectKey, givenRows, rowsThatCame, testsOf, withTest } from '../../model/pipeline/tests';
import { documentOf, factsOf, portsOfNode } from '../../store/editor';
import { t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';
import { RowGrid } from './RowGrid';

interface Props {
  readonly place: Place;
  /** A test was saved under this name. */
  readonly onTest: (name: string) => void;
}

export function SampleActions({ place, onTest }: Props) {
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const isSource = useEditor((state) => portsOfNode(state, place[0]).inputs.length === 0);
  if (isReadOnly) return null;
  return isSource ? <PinActions place={place} /> : <TestAction place={place} onTest={onTest} />;
}

function PinActions({ place }: { readonly place: Place }) {
  const [node] = place;
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const port = usePreview(({ shown }) => shown?.ports[node]?.[place[1]]);
  const [isOpen, setOpen] = useState(false);
  const sample = sampleOf(document, node);
  const name = nameOf(document, node);
  if (sample?.pinned !== true) {
    return (
      <Button
        size="compact-xs"
        variant="default"
        leftSection={<IconPin size={13} aria-hidden />}
        disabled={port === undefined}
        onClick={() => {
          if (port === undefined) return;
          store
            .getState()
            .transact(t('Pinned rows of {name}', { name }), (before) =>
              withSample(before, node, { rows: sampleRows(port), pinned: true }),
            );
          setOpen(true);
        }}
      >
        {t('Pin these rows')}
      </Button>
    );
  }
  return (
    <>
      <Button size="compact-xs" variant="default" onClick={() => setOpen(true)}>
        {t('Edit {count} pinned rows', { count: sample.rows.length })}
      </Button>
      <Button
        size="compact-xs"
        variant="default"
        leftSection={<IconPinnedOff size={13} aria-hidden />}
        onClick={() =>
          store.getState().transact(t('Unpinned rows of {name}', { name }), (before) => withSample(before, node, null))
        }
      >
        {t('Unpin')}
      </Button>
      {isOpen && <SampleDialog place={place} onClose={() => setOpen(false)} />}
    </>
  );
}

function SampleDialog({ place, onClose }: { readonly place: Place; readonly onClose: () => void }) {
  const [node] = place;
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const facts = useEditor((state) => factsOf(state, place));
  const sample = sampleOf(document, node);
  const name = nameOf(document, node);
  return (
    <Dialog onClose={onClose} size="90%" title={t('Pinned rows of {name}', { name })}>
      <p className="tm-dim">
        {t(
          'Previews read these rows in place of the source. They do not affect the job, and are saved with the pipeline.',
        )}
      </p>
      <RowGrid
        label={t('Pinned rows of {name}', { name })}
        columns={facts?.columns ?? []}
        items={sample?.rows ?? []}
        isReadOnly={false}
        hasTimes={facts?.event_time === true && facts.time_column === null}
        onChange={(items) =>
          store.getState().transact(t('Edited pinned rows of {name}', { name }), (before) =>
            withSample(before, node, {
              rows: items.flatMap((item) => (isWatermark(item) ? [] : [item])),
              pinned: true,
            }),
          )
        }
      />
    </Dialog>
  );
}

function TestAction({ place, onTest }: Props) {
  const store = useEditorStore();
  const shown = usePreview((state) => state.shown);
  const [isSaving, setSaving] = useState(false);
  const save = async () => {
    const state = store.getState();
    const document = documentOf(state);
    const sources = Object.keys(document.nodes).filter(
      (id) => document.nodes[id]?.disabled !== true && portsOfNode(state, id).inputs.length === 0,
    );
    const given = givenRows(document, sources, (node) => {
      const port = Object.values(shown?.ports[node] ?? {})[0];
      return port === undefined ? [] : sampleRows(port);
    });
    const key = expectKey(place);
    const wanted = { name: placeName(document, place), given, expect: { [key]: [] } };
    setSaving(true);
    try {
      // fewer rows are given than the preview has read: what comes of them is what is expected
      const drafted = withTest({ ...document, tests: [] }, null, wanted);
      const result = await runTest(drafted, testsOf(drafted)[0]?.name ?? '');
      if (result.message !== '') {
        state.announce(t('No test: {message}', { message: result.message }));
        return;
      }
      const expect = { [key]: rowsThatCame(result, place) };
      store.getState().transact(t('Saved a test'), (before) => withTest(before, null, { ...wanted, expect }));
      const tests = testsOf(documentOf(store.getState()));
      onTest(tests[tests.length - 1]?.name ?? '');
    } catch (error) {
      state.announce(error instanceof Error ? error.message : String(error));
    } finally {
      setSaving(false);
    }
  };
  return (
    <Button
      size="compact-xs"
      variant="default"
      leftSection={<IconTestPipe size={13} aria-hidden />}
      loading={isSaving}
      disabled={shown === null || shown.state === 'running'}
      onClick={() => void save()}
    >
      {t('Save as test')}
    </Button>
  );
}
