/**
 * What an uploaded program defines, as a canvas to read: each operator as the program wrote it, before chaining, and
 * beside it the line of the program that defined it.
 */

import { Suspense, lazy, useCallback, useId, useMemo, useState } from 'react';

import type { OperatorPlan } from '../../gen/contract';
import { type GraphEdge, topologyOfOperators } from '../../model/graph';
import { chainOf, placeOf } from '../../model/operatorPlan';
import { t } from '../../texts/t';
import { GraphCanvas } from '../GraphCanvas/GraphCanvas';
import classes from './OperatorGraph.module.css';

const CodeEditor = lazy(async () => ({ default: (await import('../Editor/CodeEditor')).CodeEditor }));

const SIZE = { width: 208, height: 72, edgeGap: 96 };

export function OperatorGraph({ plan }: { readonly plan: OperatorPlan }) {
  const topology = useMemo(() => topologyOfOperators(plan), [plan]);
  const [selected, setSelected] = useState(plan.nodes[0]?.id ?? null);
  const byId = useMemo(() => new Map(plan.nodes.map((node) => [node.id, node])), [plan]);
  const headingId = useId();
  const shown = selected === null ? undefined : byId.get(selected);
  const place = shown === undefined ? null : placeOf(shown.defined_at);
  // names of files come from the program
  const text = place !== null && Object.hasOwn(plan.files, place.file) ? plan.files[place.file] : undefined;
  const chain = shown === undefined ? [] : chainOf(plan, shown);
  const renderNode = useCallback(
    (id: string) => {
      const node = byId.get(id);
      if (node === undefined) return null;
      return (
        <button
          type="button"
          className={classes.node}
          style={{ width: SIZE.width, height: SIZE.height }}
          title={node.description}
          aria-pressed={id === selected}
          onClick={() => setSelected(id)}
        >
          <span className={classes.top}>
            <span className={classes.name}>{node.name}</span>
            <span className={classes.parallelism}>×{node.parallelism}</span>
          </span>
          <span className={classes.description}>{node.description === node.name ? node.uid : node.description}</span>
        </button>
      );
    },
    [byId, selected],
  );
  const renderEdge = useCallback((edge: GraphEdge) => <span className={classes.edge}>{edge.shipStrategy}</span>, []);
  return (
    <div className={classes.room}>
      <div className={classes.both}>
        <div className={classes.canvas}>
          <GraphCanvas
            topology={topology}
            size={SIZE}
            label={t('Operators')}
            renderNode={renderNode}
            renderEdge={renderEdge}
          />
        </div>
        {shown !== undefined && (
          <section className={classes.details} aria-labelledby={headingId}>
            <h3 id={headingId} className={classes.heading}>
              {shown.name}
            </h3>
            <dl className={classes.facts}>
              {shown.description !== shown.name && <Fact name={t('Description')} value={shown.description} />}
              {shown.uid !== '' && <Fact name="uid" value={shown.uid} />}
              {shown.output !== '' && <Fact name={t('Output')} value={shown.output} />}
              {chain.length > 1 && <Fact name={t('Chained with')} value={chain.map(({ name }) => name).join(' → ')} />}
              {shown.defined_at !== '' && <Fact name={t('Defined at')} value={shown.defined_at} />}
            </dl>
            {place !== null && text !== undefined && (
              <ProgramText key={place.file} file={place.file} text={text} line={place.line} />
            )}
          </section>
        )}
      </div>
    </div>
  );
}

interface ProgramTextProps {
  readonly file: string;
  readonly text: string;
  readonly line: number;
}

function ProgramText({ file, text, line }: ProgramTextProps) {
  const marked = useMemo(() => [[line, line] as const], [line]);
  return (
    <div className={classes.code}>
      <Suspense fallback={<p className={classes.loading}>{t('Loading the text…')}</p>}>
        <CodeEditor value={text} language="python" label={t('Text of {file}', { file })} isReadOnly marked={marked} />
      </Suspense>
    </div>
  );
}

function Fact({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}
