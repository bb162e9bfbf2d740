/** What the subtasks of a vertex do: samples of their stacks as a flame graph, and the stacks of all threads there. */

import { Button, SegmentedControl, Select, Skeleton, TextInput } from '@mantine/core';
import { IconFlame, IconListDetails, IconSearch } from '@tabler/icons-react';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useMemo, useState } from 'react';

import { fetchStacks, sampleStacks } from '../../api/metrics';
import type { VertexStacks } from '../../gen/contract';
import { useQueryParam } from '../../hooks/useQueryParam';
import { useTimes } from '../../hooks/useTimes';
import { type FlameBox, type FlameKind, boxesOf, flameOf, hottest, isOfEngine } from '../../model/flame';
import { formatCount } from '../../model/format';
import type { Vertex } from '../../model/job';
import { t } from '../../texts/t';
import { EmptyState, FailureState } from '../EmptyState/EmptyState';
import classes from './FlameTab.module.css';

const SAMPLE_MS = 5_000;
const READ_MS = 1_000;
/** Slots that have not answered by then are missing in the report. */
const PATIENCE_MS = SAMPLE_MS + 8_000;
const NUM_HOT = 12;

interface Props {
  readonly jobId: string;
  readonly vertex: Vertex;
}

export function FlameTab({ jobId, vertex }: Props) {
  /** A report that ends after this moment of the server's clock is waited for; null: none is. */
  const [after, setAfter] = useState<number | null>(null);
  const [isLate, setLate] = useState(false);
  const { data, error, refetch } = useQuery({
    queryKey: ['stacks', jobId, vertex.id],
    queryFn: () => fetchStacks(jobId, vertex.id),
    refetchInterval: after === null ? false : READ_MS,
    staleTime: 0,
  });
  const sampling = useMutation({
    mutationFn: (duration: number) => sampleStacks(jobId, vertex.id, duration),
    onMutate: () => setLate(false),
    onSuccess: () => setAfter(data?.stacks?.ended_at ?? -1),
  });
  const endedAt = data?.stacks?.ended_at ?? -1;
  if (after !== null && endedAt > after) setAfter(null);
  useEffect(() => {
    if (after === null) return undefined;
    const timer = setTimeout(() => {
      setAfter(null);
      setLate(true);
    }, PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [after]);
  if (data === undefined) {
    return error === null ? (
      <Skeleton height={320} radius={10} />
    ) : (
      <FailureState title={t('The samples cannot be shown')} message={error.message} onRetry={() => void refetch()} />
    );
  }
  const isSampling = sampling.isPending || after !== null;
  const isRunning = vertex.state === 'RUNNING' || vertex.state === 'INITIALIZING';
  return (
    <>
      <div className={classes.tools}>
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconFlame size={14} aria-hidden />}
          loading={isSampling}
          disabled={!isRunning}
          onClick={() => sampling.mutate(SAMPLE_MS)}
        >
          {t('Sample for {seconds} s', { seconds: SAMPLE_MS / 1000 })}
        </Button>
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconListDetails size={14} aria-hidden />}
          disabled={!isRunning || isSampling}
          onClick={() => sampling.mutate(0)}
        >
          {t('Thread dump')}
        </Button>
        <span role="status" className="tm-dim">
          {sampling.error?.message ??
            (!isRunning
              ? t('The vertex does not run.')
              : isLate
                ? t('No slot has answered. Is the job running?')
                : isSampling && t('Sampling …'))}
        </span>
      </div>
      {data.stacks === null ? (
        <EmptyState compact icon={IconFlame} title={t('No samples yet')}>
          {t('Sampling takes the stack of each subtask a hundred times a second, also while a call does not return.')}
        </EmptyState>
      ) : data.stacks.duration === 0 ? (
        <Dump stacks={data.stacks} />
      ) : (
        <Stacks stacks={data.stacks} />
      )}
    </>
  );
}

function Stacks({ stacks }: { readonly stacks: VertexStacks }) {
  const times = useTimes();
  const [kind, setKind] = useState<FlameKind>('full');
  const [subtask, setSubtask] = useState<string | null>('all');
  const [searchParam, setSearchParam] = useQueryParam('function');
  const search = searchParam ?? '';
  const setSearch = (value: string) => setSearchParam(value === '' ? null : value);
  const [zoomed, setZoomed] = useState<readonly number[]>([]);
  const only = subtask === null || subtask === 'all' ? null : Number(subtask);
  const root = useMemo(() => flameOf(stacks, kind, only), [stacks, kind, only]);
  const boxes = useMemo(() => boxesOf(root, zoomed), [root, zoomed]);
  const depth = Math.max(...boxes.map((box) => box.depth)) + 1;
  const share = (value: number) => `${((100 * value) / Math.max(1, root.value)).toFixed(1)}%`;
  const isFound = (name: string) => search !== '' && name.toLowerCase().includes(search.toLowerCase());
  const zoom = (box: FlameBox) => setZoomed(box.path);
  return (
    <>
      <div className={classes.tools}>
        <SegmentedControl
          size="xs"
          aria-label={t('Samples')}
          value={kind}
          onChange={(value) => {
            setKind(value);
            setZoomed([]);
          }}
          data={[
            { value: 'full', label: t('Mixed') },
            { value: 'on_cpu', label: t('On-CPU') },
            { value: 'off_cpu', label: t('Off-CPU') },
          ]}
        />
        <Select
          size="xs"
          w={130}
          allowDeselect={false}
          aria-label={t('Subtask')}
          value={subtask}
          onChange={(value) => {
            setSubtask(value);
            setZoomed([]);
          }}
          data={[
            { value: 'all', label: t('All subtasks') },
            ...stacks.subtasks.map((index) => ({ value: String(index), label: t('Subtask {index}', { index }) })),
          ]}
        />
        <TextInput
          size="xs"
          placeholder={t('Find a function')}
          aria-label={t('Find a function')}
          leftSection={<IconSearch size={14} aria-hidden />}
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
        />
        {zoomed.length > 0 && (
          <Button size="compact-sm" variant="subtle" onClick={() => setZoomed([])}>
            {t('Show all')}
          </Button>
        )}
      </div>
      <p className={classes.note}>
        {t('{shown} of {count} samples, until {endedAt}.', {
          shown: formatCount(root.value),
          count: formatCount(stacks.count),
          endedAt: times.dateTime(stacks.ended_at),
        })}
        {stacks.subtasks.length > 1 && ` ${t('{count} subtasks.', { count: stacks.subtasks.length })}`}
      </p>
      {root.value === 0 ? (
        <EmptyState compact icon={IconFlame} title={t('Nothing of this vertex was on the stack')} />
      ) : (
        <>
          <div className={classes.graph} style={{ height: depth * 20 }} role="group" aria-label={t('Flame graph')}>
            {boxes.map((box) => (
              <button
                key={box.path.join('.')}
                type="button"
                className={classes.box}
                data-engine={isOfEngine(box.flame.name) || undefined}
                data-found={isFound(box.flame.name) || undefined}
                style={{ top: box.depth * 20, left: `${100 * box.left}%`, width: `${100 * box.width}%` }}
                title={t('{name}\n{count} samples, {share}; itself {self}', {
                  name: box.flame.name,
                  count: formatCount(box.flame.value),
                  share: share(box.flame.value),
                  self: share(box.flame.self),
                })}
                tabIndex={box.width > 0.05 ? 0 : -1}
                onClick={() => zoom(box)}
              >
                {box.width > 0.02 ? box.flame.name : ''}
              </button>
            ))}
          </div>
          <div className="tm-table-scroll" tabIndex={0}>
            <table className="tm-table">
              <caption className={classes.caption}>{t('Functions that were innermost most often')}</caption>
              <thead>
                <tr>
                  <th scope="col">{t('Function')}</th>
                  <th scope="col" className="tm-num">
                    {t('Itself')}
                  </th>
                  <th scope="col" className="tm-num">
                    {t('With what it calls')}
                  </th>
                </tr>
              </thead>
              <tbody>
                {hottest(root, NUM_HOT).map(({ name, self, total }) => (
                  <tr key={name}>
                    <td className="tm-mono tm-break">{name}</td>
                    <td className="tm-num">{share(self)}</td>
                    <td className="tm-num">{share(total)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      {stacks.threads.length > 0 && <Threads title={t('Threads at the end of the samples')} threads={stacks.threads} />}
    </>
  );
}

/** The stacks of all threads at one moment, without samples. */
function Dump({ stacks }: { readonly stacks: VertexStacks }) {
  const times = useTimes();
  return (
    <Threads title={t('Threads at {endedAt}', { endedAt: times.dateTime(stacks.ended_at) })} threads={stacks.threads} />
  );
}

function Threads({ title, threads }: Pick<VertexStacks, 'threads'> & { readonly title: string }) {
  return (
    <section aria-label={t('Threads')} className={classes.threads}>
      <h3>{title}</h3>
      {threads.map(({ slot, name, stack }) => (
        <details key={`${slot} ${name}`}>
          <summary>
            {name} <span className="tm-dim">{t('in slot {slot}', { slot })}</span>
          </summary>
          <pre className="tm-mono">{stack}</pre>
        </details>
      ))}
    </section>
  );
}
