/** The dock's tests: given rows and watermarks, the rows that shall come out, and how the last run went. */

import { Button, TextInput } from '@mantine/core';
import { IconCircleCheck, IconCircleX, IconPlayerPlayFilled, IconPlus, IconTrash } from '@tabler/icons-react';
import { useState } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { useTestRuns, useTestRunsStore } from '../../hooks/usePreview';
import type { TestResult } from '../../gen/contract';
import { type Json, nameOf } from '../../model/pipeline/document';
import { cellText, isObject, placeName } from '../../model/pipeline/preview';
import { isWatermark } from '../../model/pipeline/rowGrid';
import * as model from '../../model/pipeline/tests';
import { documentOf, factsOf, portsOfNode } from '../../store/editor';
import { t } from '../../texts/t';
import { RowGrid } from './RowGrid';
import classes from './TestsPanel.module.css';

interface Props {
  readonly chosen: string | null;
  readonly onChoose: (name: string | null) => void;
}

export function TestsPanel({ chosen, onChoose }: Props) {
  const store = useEditorStore();
  const runs = useTestRunsStore();
  const document = useEditor(documentOf);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const error = useTestRuns((state) => state.error);
  const tests = model.testsOf(document);
  const test = tests.find(({ name }) => name === chosen) ?? tests[0];
  const add = () => {
    const state = store.getState();
    const ids = Object.keys(document.nodes);
    const source = ids.filter((id) => portsOfNode(state, id).inputs.length === 0);
    const sink = ids.filter((id) => portsOfNode(state, id).inputs.length > 0).pop() ?? source[0];
    if (sink === undefined) return;
    const made = { name: t('Test'), given: Object.fromEntries(source.map((id) => [id, []])), expect: { [sink]: [] } };
    state.transact(t('Added a test'), (before) => model.withTest(before, null, made));
    const all = model.testsOf(documentOf(store.getState()));
    onChoose(all[all.length - 1]?.name ?? null);
  };
  const run = (names: readonly string[]) => void runs.getState().run(documentOf(store.getState()), names);
  return (
    <div className={classes.panel}>
      <div className={classes.side}>
        <div className={classes.bar}>
          <Button
            size="compact-sm"
            variant="default"
            leftSection={<IconPlayerPlayFilled size={13} aria-hidden />}
            disabled={isReadOnly || tests.length === 0}
            onClick={() => run(tests.map(({ name }) => name))}
          >
            {t('Run all')}
          </Button>
          <Button
            size="compact-sm"
            variant="subtle"
            color="gray"
            leftSection={<IconPlus size={14} aria-hidden />}
            disabled={isReadOnly || Object.keys(document.nodes).length === 0}
            onClick={add}
          >
            {t('New')}
          </Button>
        </div>
        <ul className={classes.tests} aria-label={t('Tests')}>
          {tests.map(({ name }) => (
            <TestItem key={name} name={name} isChosen={name === test?.name} onChoose={() => onChoose(name)} />
          ))}
        </ul>
      </div>
      <div className={classes.body}>
        {error !== null && (
          <p role="alert" className={classes.error}>
            {error}
          </p>
        )}
        {test === undefined ? (
          <p className="tm-dim">
            {t(
              'A test gives rows to the sources and says which rows should come out. Save one from a preview, or begin with an empty one.',
            )}
          </p>
        ) : (
          <TestForm
            key={test.name}
            test={test}
            isReadOnly={isReadOnly}
            onRun={() => run([test.name])}
            onRenamed={onChoose}
          />
        )}
      </div>
    </div>
  );
}

function useRun(name: string) {
  const document = useEditor(documentOf);
  const run = useTestRuns((state) => state.runs[name]);
  const isRunning = useTestRuns((state) => state.running.has(name));
  return {
    result: run?.result,
    isRunning,
    isStale: run !== undefined && !model.isCurrent(run.document, document, name),
  };
}

interface TestItemProps {
  readonly name: string;
  readonly isChosen: boolean;
  readonly onChoose: () => void;
}

function TestItem({ name, isChosen, onChoose }: TestItemProps) {
  const { result, isRunning, isStale } = useRun(name);
  const word = isRunning ? 'running' : result === undefined ? t('not run') : result.passed ? 'passed' : 'failed';
  return (
    <li>
      <button type="button" className={classes.test} aria-pressed={isChosen} onClick={onChoose}>
        <span className={classes.mark} data-state={word} data-stale={isStale || undefined}>
          {word === 'passed' && <IconCircleCheck size={15} aria-hidden />}
          {word === 'failed' && <IconCircleX size={15} aria-hidden />}
        </span>
        <span className={classes.testName}>{name}</span>
        <span className={classes.word}>{isStale ? t('{word}, earlier draft', { word }) : word}</span>
      </button>
    </li>
  );
}

interface TestFormProps {
  readonly test: model.PipelineTest;
  readonly isReadOnly: boolean;
  readonly onRun: () => void;
  readonly onRenamed: (name: string) => void;
}

function TestForm({ test, isReadOnly, onRun, onRenamed }: TestFormProps) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  const { result, isRunning, isStale } = useRun(test.name);
  const [name, setName] = useState(test.name);
  const state = store.getState();
  const change = (label: string, changed: Partial<model.PipelineTest>) =>
    store
      .getState()
      .transact(label, (before) =>
        model.withTest(before, test.name, { ...(model.testOf(before, test.name) ?? test), ...changed }),
      );
  const sources = Object.keys(document.nodes).filter((id) => portsOfNode(state, id).inputs.length === 0);
  // rows can be given in place of any node
  const given = [...new Set([...sources, ...Object.keys(test.given)])];
  return (
    <div className={classes.form} role="group" aria-label={t('Test {name}', { name: test.name })}>
      <div className={classes.bar}>
        <TextInput
          size="xs"
          w={220}
          aria-label={t('Name of the test')}
          value={name}
          readOnly={isReadOnly}
          onChange={(event) => setName(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter') event.currentTarget.blur();
          }}
          onBlur={() => {
            if (name.trim() === '' || name === test.name) return;
            const place = model.testsOf(document).findIndex((each) => each.name === test.name);
            change(t('Renamed a test'), { name });
            onRenamed(model.testsOf(documentOf(store.getState()))[place]?.name ?? name);
          }}
        />
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconPlayerPlayFilled size={13} aria-hidden />}
          loading={isRunning}
          disabled={isReadOnly}
          onClick={onRun}
        >
          {t('Run')}
        </Button>
        {result !== undefined && (
          <span role="status" className={classes.verdict} data-passed={result.passed} data-stale={isStale || undefined}>
            {model.verdictOf(result)}
            {isStale && t(' (of an earlier draft)')}
          </span>
        )}
        <span className={classes.spring} />
        {!isReadOnly && (
          <Button
            size="compact-xs"
            variant="subtle"
            color="gray"
            leftSection={<IconTrash size={13} aria-hidden />}
            onClick={() =>
              store.getState().transact(t('Deleted a test'), (before) => model.withoutTest(before, test.name))
            }
          >
            {t('Delete')}
          </Button>
        )}
      </div>
      {result !== undefined && !result.passed && <Difference result={result} isStale={isStale} />}
      <div className={classes.columns}>
        <section>
          <h3 className={classes.title}>{t('Given')}</h3>
          {given.map((id) => (
            <Given
              key={id}
              id={id}
              test={test}
              isReadOnly={isReadOnly}
              onChange={(items) =>
                change(t('Edited what {name} gives', { name: test.name }), { given: { ...test.given, [id]: items } })
              }
            />
          ))}
        </section>
        <section>
          <h3 className={classes.title}>{t('Expected')}</h3>
          {Object.keys(test.expect).map((key) => (
            <Expected
              key={key}
              expectKey={key}
              test={test}
              isReadOnly={isReadOnly}
              onChange={(rows) =>
                change(t('Edited what {name} expects', { name: test.name }), {
                  expect: { ...test.expect, [key]: rows },
                })
              }
            />
          ))}
        </section>
      </div>
    </div>
  );
}

interface GivenProps {
  readonly id: string;
  readonly test: model.PipelineTest;
  readonly isReadOnly: boolean;
  readonly onChange: (items: model.PipelineTest['given'][string]) => void;
}

function Given({ id, test, isReadOnly, onChange }: GivenProps) {
  const name = useEditor((state) => nameOf(documentOf(state), id));
  const facts = useEditor((state) => factsOf(state, [id, 'out']));
  return (
    <div className={classes.part}>
      <h4 className={classes.small}>{name}</h4>
      <RowGrid
        label={t('Given to {name}', { name })}
        columns={facts?.columns ?? []}
        items={test.given[id] ?? []}
        isReadOnly={isReadOnly}
        hasTimes={facts?.event_time === true && facts.time_column === null}
        mayHaveWatermarks={facts?.event_time === true}
        onChange={onChange}
      />
    </div>
  );
}

interface ExpectedProps {
  readonly expectKey: string;
  readonly test: model.PipelineTest;
  readonly isReadOnly: boolean;
  readonly onChange: (rows: readonly Json[]) => void;
}

function Expected({ expectKey, test, isReadOnly, onChange }: ExpectedProps) {
  const isSink = useEditor((state) => portsOfNode(state, expectKey.split('/')[0] ?? '').outputs.length === 0);
  const document = useEditor(documentOf);
  const place = model.placeOfKey(document, expectKey, isSink);
  const facts = useEditor((state) => factsOf(state, place));
  const name = placeName(document, place);
  return (
    <div className={classes.part}>
      <h4 className={classes.small}>{name}</h4>
      <RowGrid
        label={t('Expected of {name}', { name })}
        columns={facts?.columns ?? []}
        items={(test.expect[expectKey] ?? []).map((row) => ({ row }))}
        isReadOnly={isReadOnly}
        hasTimes={false}
        onChange={(items) => onChange(items.flatMap((item) => (isWatermark(item) ? [] : [item.row])))}
      />
    </div>
  );
}

const SIGNS: Readonly<Record<string, string>> = { same: ' ', missing: '−', unexpected: '+' };

function Difference({ result, isStale }: { readonly result: TestResult; readonly isStale: boolean }) {
  const document = useEditor(documentOf);
  const store = useEditorStore();
  return (
    <div className={classes.difference} data-stale={isStale || undefined}>
      {result.node !== null && (
        <button type="button" className={classes.jump} onClick={() => store.getState().jumpTo(result.node ?? '')}>
          {nameOf(document, result.node)}
        </button>
      )}
      {result.places.map(({ node, port, rows }) => (
        <table
          key={`${node} ${port}`}
          className={classes.rows}
          aria-label={t('Difference at {document}', { document: nameOf(document, node) })}
        >
          <tbody>
            {rows.map(({ state, row }, index) => (
              <tr key={index} data-state={state}>
                <td className={classes.sign} title={state}>
                  {SIGNS[state]}
                  <span className="tm-visually-hidden">{state}</span>
                </td>
                <td>{rowText(row as Json)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ))}
    </div>
  );
}

function rowText(row: Json): string {
  if (!isObject(row)) return cellText(row);
  return Object.entries(row)
    .map(([name, value]) => `${name} = ${cellText(value)}`)
    .join(', ');
}
