/** Below the canvas: what is wrong and how to mend it, the rows of a preview, and the Python that the pipeline is. */

import { ActionIcon, Button, Tabs } from '@mantine/core';
import { IconChevronDown, IconChevronUp, IconCircleCheck } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { Suspense, lazy, useMemo, useState } from 'react';

import { compile } from '../../api/pipelines';
import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { type Problem, bySeverity } from '../../model/pipeline/catalog';
import { type PipelineDocument, nameOf } from '../../model/pipeline/document';
import { fieldWords } from '../../model/pipeline/forms';
import { documentOf } from '../../store/editor';
import { t } from '../../texts/t';
import { CopyText } from '../CopyText/CopyText';
import { TabBar } from '../TabBar/TabBar';
import classes from './Dock.module.css';
import { SEVERITY_TEXT, SeverityIcon } from './icons';

const PreviewPanel = lazy(async () => ({ default: (await import('./PreviewPanel')).PreviewPanel }));
const PlanPanel = lazy(async () => ({ default: (await import('./PlanPanel')).PlanPanel }));
const SampleActions = lazy(async () => ({ default: (await import('./SampleActions')).SampleActions }));
const TestsPanel = lazy(async () => ({ default: (await import('./TestsPanel')).TestsPanel }));
const CodeEditor = lazy(async () => ({ default: (await import('./CodeEditor')).CodeEditor }));

interface Props {
  readonly tab: string | null;
  /** Null closes it. */
  readonly onTab: (tab: string | null) => void;
  readonly onPreview: () => void;
}

export function Dock({ tab, onTab, onPreview }: Props) {
  const problems = useEditor((state) => state.validation.problems);
  const isOpen = tab !== null;
  // which test is shown: tabs that are left are not kept
  const [test, setTest] = useState<string | null>(null);
  return (
    <Tabs
      value={tab}
      onChange={onTab}
      className={classes.dock ?? ''}
      data-open={isOpen || undefined}
      data-tall={(isOpen && tab !== 'problems') || undefined}
      keepMounted={false}
    >
      <div className={classes.bar}>
        <TabBar
          value={tab}
          tabs={[
            ['problems', t('Problems'), <Count key="count" problems={problems} />],
            ['preview', t('Preview')],
            ['tests', t('Tests'), <TestCount key="tests" />],
            ['python', t('Python')],
            ['plan', t('Plan')],
          ]}
        />
        <ActionIcon
          variant="subtle"
          color="gray"
          aria-label={isOpen ? t('Close the panel') : t('Open the panel')}
          onClick={() => onTab(isOpen ? null : 'problems')}
        >
          {isOpen ? <IconChevronDown size={17} aria-hidden /> : <IconChevronUp size={17} aria-hidden />}
        </ActionIcon>
      </div>
      <Tabs.Panel value="problems" className={classes.panel ?? ''}>
        <Problems />
      </Tabs.Panel>
      <Tabs.Panel value="preview" className={classes.panel ?? ''}>
        <Suspense fallback={<p className={classes.none}>{t('Loading…')}</p>}>
          <PreviewPanel
            onStart={onPreview}
            actions={(place) => (
              <Suspense>
                <SampleActions
                  place={place}
                  onTest={(name) => {
                    setTest(name);
                    onTab('tests');
                  }}
                />
              </Suspense>
            )}
          />
        </Suspense>
      </Tabs.Panel>
      <Tabs.Panel value="tests" className={classes.panel ?? ''}>
        <Suspense fallback={<p className={classes.none}>{t('Loading…')}</p>}>
          <TestsPanel chosen={test} onChoose={setTest} />
        </Suspense>
      </Tabs.Panel>
      <Tabs.Panel value="plan" className={classes.panel ?? ''}>
        <Suspense fallback={<p className={classes.none}>{t('Loading…')}</p>}>
          <PlanPanel />
        </Suspense>
      </Tabs.Panel>
      <Tabs.Panel value="python" className={classes.panel ?? ''}>
        <PythonProgram />
      </Tabs.Panel>
    </Tabs>
  );
}

function Count({ problems }: { readonly problems: readonly Problem[] }) {
  const count = problems.filter(({ severity }) => severity !== 'info').length;
  return count === 0 ? null : <span className={classes.count}>{count}</span>;
}

function TestCount() {
  const count = useEditor((state) => documentOf(state).tests?.length ?? 0);
  return count === 0 ? null : <span className={classes.count}>{count}</span>;
}

export function Problems() {
  const store = useEditorStore();
  const problems = useEditor((state) => state.validation.problems);
  const error = useEditor((state) => state.validationError);
  const document = useEditor(documentOf);
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const isStale = useEditor((state) => state.validated !== documentOf(state));
  const sorted = useMemo(() => bySeverity(problems), [problems]);
  if (error !== null) {
    return (
      <p role="alert" className={classes.failure}>
        {t('The server could not check the pipeline: {error}', { error })}
      </p>
    );
  }
  if (sorted.length === 0) {
    return isStale ? (
      <p className={classes.none}>{t('Checking…')}</p>
    ) : (
      <p className={classes.none}>
        <IconCircleCheck size={17} aria-hidden /> {t('No problems.')}
      </p>
    );
  }
  return (
    <ul className={classes.problems} aria-label={t('Problems')}>
      {sorted.map((problem) => (
        <li key={problem.id} className={classes.problem} data-severity={problem.severity}>
          <SeverityIcon severity={problem.severity} size={16} />
          <div className={classes.words}>
            <span className="tm-visually-hidden">{SEVERITY_TEXT[problem.severity]}: </span>
            {problem.node === null && problem.field === null ? (
              <strong>{t('Pipeline')}</strong>
            ) : (
              <button
                type="button"
                className={classes.jump}
                onClick={() => store.getState().jumpTo(problem.node, problem.field)}
              >
                {problem.node === null ? t('Pipeline') : nameOf(document, problem.node)}
              </button>
            )}
            <span className="tm-break">
              {problem.field !== null && <span className="tm-dim">{fieldWords(problem.field)} </span>}
              {problem.message}
            </span>
            {problem.hint !== '' && <span className={classes.hint}>{problem.hint}</span>}
          </div>
          {!isReadOnly && problem.fixes.length > 0 && (
            <div className={classes.fixes}>
              {problem.fixes.map((fix, index) => (
                <Button
                  key={fix.title}
                  size="compact-xs"
                  variant="default"
                  onClick={() => store.getState().applyFix(problem, index)}
                >
                  {fix.title}
                </Button>
              ))}
            </div>
          )}
        </li>
      ))}
    </ul>
  );
}

function PythonProgram() {
  const document = useEditor(documentOf);
  const chosen = useEditor((state) => state.history.selection.nodes);
  // the layout changes nothing of the program
  const key = useMemo(() => JSON.stringify({ ...document, layout: {} }), [document]);
  const { data, error } = useQuery({
    queryKey: ['pipeline-program', key],
    queryFn: ({ signal }) => compile(JSON.parse(key) as PipelineDocument, signal),
    placeholderData: (before) => before,
    gcTime: 30_000,
    retry: false,
  });
  // a new list moves the selection to its line
  const marked = useMemo(
    () =>
      (data?.lines ?? [])
        .filter(({ node }) => node !== null && chosen.includes(node))
        .map(({ first, last }) => [first, last] as const),
    [data, chosen],
  );
  if (error !== null) {
    return (
      <p role="alert" className={classes.failure}>
        {error.message}
      </p>
    );
  }
  if (data === undefined) return <p className={classes.none}>{t('Writing the program…')}</p>;
  return (
    <div className={classes.program}>
      <div className={classes.programBar}>
        <CopyText text={t('{name}.py', { name: document.name })} label={t('name')} />
      </div>
      <Suspense fallback={<pre className={classes.source}>{data.source}</pre>}>
        <CodeEditor value={data.source} language="python" label={t('Python program')} isReadOnly marked={marked} />
      </Suspense>
    </div>
  );
}
