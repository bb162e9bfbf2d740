/** The dock's preview: how it goes, and the rows of every output. */

import { Button, Select } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck, IconPlayerPlayFilled, IconPlayerStopFilled } from '@tabler/icons-react';
import { type ReactNode, useState } from 'react';

import type { PreviewAnswer } from '../../gen/contract';
import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { useIsStale, usePreview, usePreviewStore } from '../../hooks/usePreview';
import { formatCount } from '../../model/format';
import * as model from '../../model/pipeline/preview';
import { documentOf } from '../../store/editor';
import { ROWS_CHOICES } from '../../store/preview';
import { t } from '../../texts/t';
import classes from './Preview.module.css';
import { RowTable } from './RowTable';

interface Props {
  readonly onStart: () => void;
  /** Further actions for the rows of one port. */
  readonly actions?: (place: model.Place) => ReactNode;
}

/** What stands in the place of rows, by the preview's state. */
const EMPTY: Readonly<Record<PreviewAnswer['state'], string>> = {
  running: t('No rows yet.'),
  finished: t('No rows have passed here.'),
  failed: t('No rows have passed here: see the problems of this node.'),
  stopped: t('Stopped before a row arrived.'),
  'timed out': t('No row arrived in time.'),
  lost: t('The preview was lost before a row arrived.'),
};

export function PreviewPanel({ onStart, actions }: Props) {
  const shown = usePreview((state) => state.shown);
  const error = usePreview((state) => state.error);
  return (
    <div className={classes.panel}>
      <Bar onStart={onStart} />
      {error !== null && (
        <p role="alert" className={classes.error}>
          {error}
        </p>
      )}
      {shown === null ? (
        <p className={classes.none}>
          {t(
            'A preview runs this draft over the first rows of its sources and shows what flows at every output. Nothing is written anywhere.',
          )}
        </p>
      ) : (
        <Shown actions={actions} />
      )}
    </div>
  );
}

function Bar({ onStart }: { readonly onStart: () => void }) {
  const store = usePreviewStore();
  const editor = useEditorStore();
  const document = useEditor(documentOf);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const shown = usePreview((state) => state.shown);
  const isStarting = usePreview((state) => state.isStarting);
  const isStopping = usePreview((state) => state.isStopping);
  const rows = usePreview((state) => state.rows);
  const first = usePreview(({ startedAt, firstRowsAt }) =>
    startedAt === null || firstRowsAt === null ? null : firstRowsAt - startedAt,
  );
  const isRunning = shown?.state === 'running';
  const ending = shown === null ? null : model.endingOf(document, shown);
  const failure = shown === null ? null : model.failureOf(document, shown);
  return (
    <div className={classes.bar}>
      {isRunning ? (
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconPlayerStopFilled size={13} aria-hidden />}
          loading={isStopping}
          onClick={() => void store.getState().stop()}
        >
          {t('Stop')}
        </Button>
      ) : (
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconPlayerPlayFilled size={13} aria-hidden />}
          loading={isStarting}
          disabled={isReadOnly}
          onClick={onStart}
        >
          {shown === null ? t('Run') : t('Run again')}
        </Button>
      )}
      {ending !== null && (
        <div className={classes.ending} role="status" data-tone={ending.tone}>
          {ending.tone === 'good' && <IconCircleCheck size={16} aria-hidden />}
          {ending.tone === 'bad' && <IconAlertTriangle size={16} aria-hidden />}
          <strong>{ending.title}</strong>
          {failure !== null &&
            (failure.node === null && failure.field === null ? (
              <span>{failure.text}</span>
            ) : (
              <button
                type="button"
                className={classes.jump}
                onClick={() => editor.getState().jumpTo(failure.node, failure.field, failure.line)}
              >
                {failure.text}
              </button>
            ))}
          {ending.notes.map((note) => (
            <span key={note} className="tm-break">
              {note}
            </span>
          ))}
          {first !== null && (
            <span className="tm-dim">{t('First rows after {first} s.', { first: (first / 1000).toFixed(1) })}</span>
          )}
        </div>
      )}
      <span className={classes.spring} />
      <Select
        size="xs"
        w={176}
        className={classes.choice ?? ''}
        aria-label={t('Rows of each source')}
        allowDeselect={false}
        data={ROWS_CHOICES.map((choice) => ({
          value: String(choice),
          label: t('{choice} rows a source', { choice: formatCount(choice) }),
        }))}
        value={String(rows)}
        onChange={(value) => store.getState().setRows(Number(value))}
      />
    </div>
  );
}

function Shown({ actions }: { readonly actions: Props['actions'] }) {
  const editor = useEditorStore();
  const document = useEditor(documentOf);
  const { nodes, edges } = useEditor((state) => state.history.selection);
  const shown = usePreview((state) => state.shown);
  const [isOutput, setOutput] = useState(false);
  const places = model.placesOf(document, shown);
  const selected = model.chosenPlaces(document, shown, nodes, edges);
  const [first] = places;
  const chosen = selected.length > 0 || nodes.length + edges.length > 0 || first === undefined ? selected : [first];
  const keys = new Set(chosen.map(model.placeKey));
  const printed = shown?.end?.output ?? '';
  const traceback = shown?.end?.traceback ?? '';
  return (
    <div className={classes.shown}>
      <ul className={classes.places} aria-label={t('Outputs')}>
        {places.map((place) => (
          <PlaceItem
            key={model.placeKey(place)}
            place={place}
            isChosen={!isOutput && keys.has(model.placeKey(place))}
            onChoose={() => {
              setOutput(false);
              editor.getState().select({ nodes: [place[0]] });
            }}
          />
        ))}
        {(printed !== '' || traceback !== '') && (
          <li>
            <button
              type="button"
              className={classes.place}
              aria-pressed={isOutput}
              onClick={() => setOutput((before) => !before)}
            >
              {t('Printed output')}
            </button>
          </li>
        )}
      </ul>
      <div className={classes.tables}>
        {isOutput ? (
          <pre className={classes.output} tabIndex={0} role="region" aria-label={t('Printed output')}>
            {[traceback, printed].filter(Boolean).join('\n')}
          </pre>
        ) : chosen.length === 0 ? (
          <p className={classes.none}>{shown === null ? '' : EMPTY[shown.state]}</p>
        ) : (
          chosen.map((place) => <PortRows key={model.placeKey(place)} place={place} actions={actions} />)
        )}
      </div>
    </div>
  );
}

interface PlaceItemProps {
  readonly place: model.Place;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
}

function PlaceItem({ place, isChosen, onChoose }: PlaceItemProps) {
  const name = useEditor((state) => model.placeName(documentOf(state), place));
  const rows = usePreview(({ shown }) => shown?.ports[place[0]]?.[place[1]]?.rows ?? 0);
  const isStale = useIsStale(place[0]);
  return (
    <li>
      <button
        type="button"
        className={classes.place}
        aria-pressed={isChosen}
        data-stale={isStale || undefined}
        onClick={onChoose}
      >
        <span className={classes.placeName}>{name}</span>
        <span className={classes.count}>{formatCount(rows)}</span>
      </button>
    </li>
  );
}

function PortRows({ place, actions }: { readonly place: model.Place; readonly actions: Props['actions'] }) {
  const name = useEditor((state) => model.placeName(documentOf(state), place));
  const port = usePreview(({ shown }) => shown?.ports[place[0]]?.[place[1]]);
  const isStale = useIsStale(place[0]);
  if (port === undefined) return null;
  const table = model.tableOf(port);
  return (
    <section className={classes.port}>
      <header className={classes.portHead}>
        <h3 className={classes.portName}>{name}</h3>
        <span className="tm-dim">
          {port.rows === port.sample.length
            ? `${formatCount(port.rows)} ${port.rows === 1 ? 'row' : 'rows'}`
            : t('{count} of {rows} rows', { count: formatCount(port.sample.length), rows: formatCount(port.rows) })}
        </span>
        {isStale && <span className={classes.stale}>{t('of an earlier draft')}</span>}
        <span className={classes.spring} />
        {actions?.(place)}
      </header>
      {port.rows === 0 ? (
        <p className={classes.none}>{t('No rows.')}</p>
      ) : (
        <RowTable table={table} label={t('Rows of {name}', { name })} isStale={isStale} />
      )}
    </section>
  );
}
