/** The logs of all slots of a job and of its processes as one: entries by time, searched and filtered by the server, followed. */

import { ActionIcon, Button, Loader, Select, Switch, TextInput, Tooltip } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconSearch, IconX } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';
import { useSearchParams } from 'react-router';

import type { JobLogEntry, LogFile } from '../../gen/contract';
import { useJobLog } from '../../hooks/useJobLog';
import { useTimes } from '../../hooks/useTimes';
import { formatBytes, formatCount } from '../../model/format';
import { type HeldLog, type LogFilter, KINDS, LEVELS, queryOf, rowsOf, severityOf } from '../../model/jobLog';
import { plural, t } from '../../texts/t';
import { Panel } from '../Panel/Panel';
import classes from './LogText.module.css';
import { Marked } from './Marked';

const LINE_HEIGHT = 20;
const TYPING_MS = 300;
/** Of the filter → in the address, where `vertex` and `from` stand for other things on other tabs. */
const PARAMS = {
  q: 'q',
  level: 'level',
  attempt: 'attempt',
  slot: 'slot',
  vertex: 'logVertex',
  operator: 'logOperator',
  kind: 'logKind',
  from: 'logFrom',
} as const;

export interface NamedVertex {
  readonly id: string;
  readonly name: string;
  readonly operators: readonly { readonly uid: string; readonly name: string }[];
}

interface Props {
  readonly jobId: string;
  readonly isLive: boolean;
  readonly files: readonly LogFile[];
  readonly vertices: readonly NamedVertex[];
  readonly picker: ReactNode;
}

export function JobLogText({ jobId, isLive, files, vertices, picker }: Props) {
  const [filter, setFilter] = useLogFilter();
  const [isFollowing, setFollowing] = useState(isLive);
  const slots = numbers(files.map(({ slot }) => slot));
  const attempts = numbers(files.map(({ attempt }) => attempt)).toReversed();
  const times = useTimes();
  return (
    <Panel flush label={t('Log')}>
      <div className={classes.bar}>
        {picker}
        <SearchField value={filter.q ?? ''} onChange={(text) => setFilter({ q: text })} />
        <Filter
          label={t('Level')}
          all={t('All levels')}
          value={filter.level}
          onChange={(value) => setFilter({ level: value })}
          // fatal is what no program logs every day
          options={LEVELS.slice(1, -1).map((level) => [
            level,
            level === 'ERROR' ? t('Errors only') : t('{level} and above', { level }),
          ])}
        />
        <Filter
          label={t('Vertex')}
          all={t('All vertices')}
          value={filter.vertex}
          // an operator of another vertex has logged nothing there
          onChange={(value) => setFilter({ vertex: value, operator: null })}
          options={vertices.map(({ id, name }) => [id, name])}
        />
        <Filter
          label={t('Operator')}
          all={t('All operators')}
          value={filter.operator}
          onChange={(value) => setFilter({ operator: value })}
          options={vertices
            .filter(({ id }) => filter.vertex === null || id === filter.vertex)
            .flatMap(({ operators }) => operators.map(({ uid, name }) => [uid, name] as const))}
        />
        <Filter
          label={t('Source')}
          all={t('All sources')}
          value={filter.kind}
          onChange={(value) => setFilter({ kind: value })}
          options={Object.entries(KINDS)}
        />
        <Filter
          label={t('Attempt')}
          all={t('All attempts')}
          value={filter.attempt}
          onChange={(value) => setFilter({ attempt: value })}
          options={attempts.map((attempt) => [String(attempt), t('Attempt {attempt}', { attempt })])}
        />
        <Filter
          label={t('Slot')}
          all={t('All slots')}
          value={filter.slot}
          onChange={(value) => setFilter({ slot: value })}
          options={slots.map((slot) => [String(slot), t('Slot {slot}', { slot })])}
        />
        {filter.from !== null && (
          <Button
            size="compact-sm"
            variant="default"
            rightSection={<IconX size={13} />}
            onClick={() => setFilter({ from: null })}
          >
            {t('From {from}', { from: times.dateTime(queryOf(filter).from) })}
          </Button>
        )}
        <span className={classes.spring} />
        {isLive && (
          <Switch
            size="sm"
            label={t('Follow')}
            checked={isFollowing}
            onChange={(event) => setFollowing(event.currentTarget.checked)}
          />
        )}
      </div>
      <Entries
        key={JSON.stringify(filter)}
        jobId={jobId}
        filter={filter}
        vertices={vertices}
        isFollowing={isFollowing && isLive}
        onScrollBack={() => setFollowing(false)}
      />
    </Panel>
  );
}

/** The filter as the address has it, so that what is found has a link. */
function useLogFilter(): [LogFilter, (changes: Partial<LogFilter>) => void] {
  const [params, setParams] = useSearchParams();
  const filter: LogFilter = {
    q: params.get(PARAMS.q),
    level: params.get(PARAMS.level),
    attempt: params.get(PARAMS.attempt),
    slot: params.get(PARAMS.slot),
    vertex: params.get(PARAMS.vertex),
    operator: params.get(PARAMS.operator),
    kind: params.get(PARAMS.kind),
    from: params.get(PARAMS.from),
  };
  const set = (changes: Partial<LogFilter>) =>
    setParams(
      (old) => {
        const next = new URLSearchParams(old);
        for (const [name, value] of Object.entries(changes) as [keyof LogFilter, string | null][]) {
          if (value === null || value === '') next.delete(PARAMS[name]);
          else next.set(PARAMS[name], value);
        }
        return next;
      },
      { replace: true },
    );
  return [filter, set];
}

function SearchField({ value, onChange }: { readonly value: string; readonly onChange: (text: string) => void }) {
  const [text, setText] = useState(value);
  const search = useDebouncedCallback(onChange, TYPING_MS);
  return (
    <TextInput
      size="xs"
      w={200}
      placeholder={t('Search')}
      aria-label={t('Search in the log')}
      leftSection={<IconSearch size={15} />}
      maxLength={500}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        search(event.currentTarget.value);
      }}
      onKeyDown={(event) => {
        if (event.key === 'Enter') onChange(text);
      }}
      rightSection={
        text !== '' && (
          <ActionIcon
            variant="subtle"
            color="gray"
            size="sm"
            aria-label={t('Clear the search')}
            onClick={() => {
              setText('');
              search('');
            }}
          >
            <IconX size={13} />
          </ActionIcon>
        )
      }
    />
  );
}

interface FilterProps {
  readonly label: string;
  readonly all: string;
  readonly value: string | null;
  readonly onChange: (value: string | null) => void;
  readonly options: readonly (readonly [value: string, label: string])[];
}

function Filter({ label, all, value, onChange, options }: FilterProps) {
  // what an address asks for may be gone: it is shown, so that it can be taken back
  const known =
    value === null || options.some(([each]) => each === value) ? options : [...options, [value, value] as const];
  return (
    <Select
      size="xs"
      w={140}
      aria-label={label}
      allowDeselect={false}
      searchable={known.length > 12}
      value={value ?? ''}
      onChange={(chosen) => onChange(chosen === '' ? null : chosen)}
      data={[{ value: '', label: all }, ...known.map(([each, text]) => ({ value: each, label: text }))]}
      comboboxProps={{ width: 'max-content', position: 'bottom-start' }}
    />
  );
}

interface EntriesProps {
  readonly jobId: string;
  readonly filter: LogFilter;
  readonly vertices: readonly NamedVertex[];
  readonly isFollowing: boolean;
  readonly onScrollBack: () => void;
}

function Entries({ jobId, filter, vertices, isFollowing, onScrollBack }: EntriesProps) {
  const { held, error, isSearching, lookBack } = useJobLog(jobId, queryOf(filter), isFollowing);
  const scroller = useRef<HTMLDivElement>(null);
  const isAll = Object.keys(queryOf(filter)).length === 0;
  const entries = held?.entries;
  const rows = useMemo(() => rowsOf(entries ?? []), [entries]);
  const names = useMemo(
    () =>
      new Map(
        vertices.flatMap(({ id, name, operators }) => [
          [id, name],
          ...operators.map((operator) => [operator.uid, operator.name] as const),
        ]),
      ),
    [vertices],
  );
  // eslint-disable-next-line react-hooks/incompatible-library -- its functions are called in this component only
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
  });
  // what the list ended with, so that it stays there, or where it is when older entries come in front
  const before = useRef<{ readonly last: JobLogEntry | undefined; readonly count: number }>({
    last: undefined,
    count: 0,
  });
  useEffect(() => {
    const { last, count } = before.current;
    const newest = rows.at(-1)?.entry;
    before.current = { last: newest, count: rows.length };
    if (rows.length === 0) return;
    if (last === undefined || isFollowing) virtual.scrollToIndex(rows.length - 1, { align: 'end' });
    else if (newest === last && rows.length > count) virtual.scrollToIndex(rows.length - count, { align: 'start' });
  }, [rows, isFollowing, virtual]);
  useEffect(() => {
    if (isFollowing && before.current.count > 0) virtual.scrollToIndex(before.current.count - 1, { align: 'end' });
  }, [isFollowing, virtual]);
  return (
    <>
      {error !== null && (
        <p className={classes.error} role="alert">
          {error}
        </p>
      )}
      <div
        ref={scroller}
        className={classes.lines}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={t('Lines of all logs')}
        onWheel={(event) => {
          if (event.deltaY < 0) onScrollBack();
        }}
      >
        {typeof held?.earlier === 'string' && (
          <div className={classes.earlier}>
            <Button
              variant="default"
              size="compact-xs"
              loading={isSearching}
              onClick={() => {
                onScrollBack();
                lookBack();
              }}
            >
              {t('Look further back')}
            </Button>
          </div>
        )}
        {held !== null && rows.length === 0 && held.earlier === null && (
          <p className={classes.nothing}>
            {isAll ? t('Nothing has been printed or logged yet.') : t('No line is what you look for.')}
          </p>
        )}
        <div className={classes.body} style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, start }) => {
            const row = rows[index];
            return (
              row !== undefined && (
                <div
                  key={index}
                  className={classes.line}
                  data-level={severityOf(row.entry.level)}
                  style={{ height: LINE_HEIGHT, transform: `translateY(${start}px)` }}
                >
                  <Origin entry={row.entry} isShown={row.isFirst} names={names} />
                  <Marked line={row.text} text={filter.q ?? ''} />
                  {row.entry.is_cut && row.isFirst && <span className={classes.cut}> {t('… shown in part')}</span>}
                </div>
              )
            );
          })}
        </div>
      </div>
      <p className={classes.foot} role="status">
        {isSearching && <Loader size={12} mr={6} />}
        <Progress held={held} />
      </p>
    </>
  );
}

/** When and where an entry was logged; room for it before its further lines. */
function Origin({
  entry,
  isShown,
  names,
}: {
  readonly entry: JobLogEntry;
  readonly isShown: boolean;
  readonly names: ReadonlyMap<string, string>;
}) {
  const times = useTimes();
  if (!isShown) return <span className={classes.origin} aria-hidden />;
  const { time, level, slot, attempt, kind, vertex, subtask, operator } = entry;
  const task = vertex === '' ? '' : `${names.get(vertex) ?? vertex} ${(subtask ?? 0) + 1}`;
  const code = operator === '' ? '' : (names.get(operator) ?? operator);
  const writer = kind === 'jobmanager' ? t('JobManager') : t('TaskManager');
  // of a process: "taskmanager/host:4711-0a1b2c"
  const process = entry.name.slice(entry.name.indexOf('/') + 1);
  const place =
    slot === null
      ? `${writer} ${process}`
      : [
          t('Attempt {attempt} · slot {slot}', { attempt: attempt ?? '', slot }),
          kind === 'out' ? t('output') : task,
          code,
        ]
          .filter(Boolean)
          .join(' · ');
  const short = slot === null ? writer : task || t('slot {slot}', { slot });
  const clock = time === null ? '' : `${times.time(time)}.${String(time % 1000).padStart(3, '0')}`;
  return (
    <Tooltip label={`${time === null ? '' : `${times.dateTime(time)} · `}${place}`} openDelay={300}>
      <span className={classes.origin}>
        <span className={classes.clock}>{clock}</span>
        <span className={classes.level}>{level}</span>
        <span className={classes.place}>{code === '' ? short : `${code} ${(subtask ?? 0) + 1}`}</span>
      </span>
    </Tooltip>
  );
}

/** How much was found, and how far the server has looked. */
function Progress({ held }: { readonly held: HeldLog | null }) {
  const times = useTimes();
  if (held === null) return t('Searching');
  const { entries, left, size, logs, leftOut, searchedTo, isCut } = held;
  const parts = [plural(entries.length, '1 entry', '{count} entries')];
  parts.push(t('{logs} of {size}', { logs: plural(logs, '1 log', '{count} logs'), size: formatBytes(size) }));
  if (left > 0) {
    const rest = formatBytes(left);
    parts.push(
      searchedTo === null
        ? t('searched, {left} left', { left: rest })
        : t('searched back to {time}, {left} left', { time: times.dateTime(searchedTo), left: rest }),
    );
  }
  if (leftOut > 0)
    parts.push(
      t('{leftOut} logs left out: choose an attempt or a slot to see them', { leftOut: formatCount(leftOut) }),
    );
  if (isCut) parts.push(t('older entries are no longer shown'));
  return parts.join(' · ');
}

function numbers(values: readonly number[]): number[] {
  return [...new Set(values)].toSorted((a, b) => a - b);
}
