/** A log file: virtualised lines, search through the whole file, level filter, follow mode. */

import { ActionIcon, Button, Select, Switch, TextInput, Tooltip } from '@mantine/core';
import { IconChevronDown, IconChevronUp, IconDownload, IconSearch } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';

import { downloadLog } from '../../api/download';
import { useQueryParam } from '../../hooks/useQueryParam';
import { type FoundInLog, useLogSearch } from '../../hooks/useLogSearch';
import { useLogTail } from '../../hooks/useLogTail';
import { formatBytes, formatCount } from '../../model/format';
import { indexOfLine, levelOf } from '../../model/logBuffer';
import { t } from '../../texts/t';
import { Panel } from '../Panel/Panel';
import classes from './LogText.module.css';
import { Marked } from './Marked';

const LINE_HEIGHT = 20;

interface Props {
  readonly jobId: string;
  readonly name: string;
  readonly isLive: boolean;
  readonly picker: ReactNode;
}

export function LogText({ jobId, name, isLive, picker }: Props) {
  const [isFollowing, setFollowing] = useState(isLive);
  const [textParam, setTextParam] = useQueryParam('find');
  // what is typed is shown at once: the address may follow later
  const [text, setTyped] = useState(textParam ?? '');
  const setText = (value: string) => {
    setTyped(value);
    setTextParam(value === '' ? null : value);
  };
  const [levelParam, setLevelParam] = useQueryParam('min-level');
  const level = levelParam ?? 'all';
  const setLevel = (value: string) => setLevelParam(value === 'all' ? null : value);
  const [hit, setHit] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const tail = useLogTail(jobId, name, isFollowing && isLive);
  const { mutate: download, isPending: isDownloading } = useMutation({ mutationFn: () => downloadLog(jobId, name) });

  const found = useLogSearch(jobId, name, text, isLive);
  const { buffer, goTo } = tail;
  const { lines: all, firstLine } = buffer;
  // indexes of the visible lines among the loaded ones
  const shown = useMemo(() => all.flatMap((line, index) => (isOfLevel(line, level) ? [index] : [])), [all, level]);
  const match = found.matches[Math.min(hit, found.matches.length - 1)];
  const heldAt = match === undefined ? null : indexOfLine(buffer, match.line);
  const currentHit = heldAt === null ? -1 : shown.indexOf(heldAt);
  // eslint-disable-next-line react-hooks/incompatible-library -- its functions are called in this component only
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
  });
  useEffect(() => {
    if (isFollowing && shown.length > 0) virtual.scrollToIndex(shown.length - 1, { align: 'end' });
  }, [isFollowing, shown.length, virtual]);
  useEffect(() => {
    if (currentHit >= 0) virtual.scrollToIndex(currentHit, { align: 'center' });
  }, [currentHit, virtual]);
  const { isLoaded } = tail;
  const matchOffset = match?.offset ?? null;
  const isHeld = heldAt !== null;
  useEffect(() => {
    if (matchOffset !== null && isLoaded && !isHeld) goTo(matchOffset);
    // once per selected match: selecting it changes the loaded lines
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [matchOffset, isLoaded, goTo]);

  const goToHit = (number: number) => {
    setHit(number);
    setFollowing(false);
    // show the line whatever its level
    setLevel('all');
  };
  const step = (by: number) => {
    const count = found.matches.length;
    if (count > 0) goToHit((count + Math.min(hit, count - 1) + by) % count);
  };
  return (
    <Panel flush label={t('Log')}>
      <div className={classes.bar}>
        {picker}
        <TextInput
          size="xs"
          w={180}
          placeholder={t('Search')}
          aria-label={t('Search in the log')}
          leftSection={<IconSearch size={15} />}
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            goToHit(0);
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter') step(event.shiftKey ? -1 : 1);
          }}
        />
        {text !== '' && (
          <span className={classes.hits} role="status">
            {hitsText(found, hit)}
            <ActionIcon
              variant="subtle"
              color="gray"
              size="sm"
              aria-label={t('Previous match')}
              onClick={() => step(-1)}
            >
              <IconChevronUp size={15} />
            </ActionIcon>
            <ActionIcon variant="subtle" color="gray" size="sm" aria-label={t('Next match')} onClick={() => step(1)}>
              <IconChevronDown size={15} />
            </ActionIcon>
          </span>
        )}
        <Select
          size="xs"
          w={140}
          aria-label={t('Level')}
          allowDeselect={false}
          value={level}
          onChange={(value) => setLevel(value ?? 'all')}
          data={[
            { value: 'all', label: t('All levels') },
            { value: 'warning', label: t('Warnings, errors') },
            { value: 'error', label: t('Errors only') },
          ]}
        />
        <span className={classes.spring} />
        {isLive && (
          <Switch
            size="sm"
            label={t('Follow')}
            checked={isFollowing}
            onChange={(event) => {
              setFollowing(event.currentTarget.checked);
              if (event.currentTarget.checked) tail.goToEnd();
            }}
          />
        )}
        <Tooltip label={t('Download the whole file')}>
          <ActionIcon
            variant="default"
            size="md"
            aria-label={t('Download the whole file')}
            loading={isDownloading}
            onClick={() => download()}
          >
            <IconDownload size={16} />
          </ActionIcon>
        </Tooltip>
      </div>
      {(tail.error ?? found.error) !== null && (
        <p className={classes.error} role="alert">
          {tail.error ?? found.error}
        </p>
      )}
      <div
        ref={scroller}
        className={classes.lines}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={t('Lines of {name}', { name })}
        onWheel={(event) => {
          // scrolling back ends follow mode
          if (event.deltaY < 0) setFollowing(false);
        }}
      >
        {buffer.start > buffer.begin && (
          <div className={classes.earlier}>
            <Button variant="default" size="compact-xs" loading={tail.isReading} onClick={() => tail.readBack()}>
              {t('Load the {start} before', { start: formatBytes(Math.min(buffer.start - buffer.begin, 128 * 1024)) })}
            </Button>
          </div>
        )}
        {tail.isLoaded && shown.length === 0 && (
          <p className={classes.nothing}>{all.length === 0 ? t('The file is empty.') : t('No line has this level.')}</p>
        )}
        <div className={classes.body} style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, start }) => {
            const line = all[shown[index] ?? -1] ?? '';
            return (
              <div
                key={index}
                className={classes.line}
                data-level={levelOf(line)}
                data-current={index === currentHit || undefined}
                style={{ height: LINE_HEIGHT, transform: `translateY(${start}px)` }}
              >
                <Marked line={line} text={text} />
              </div>
            );
          })}
        </div>
      </div>
      {tail.isLoaded && !(isFollowing && isLive) && buffer.end < buffer.size && (
        <div className={classes.onwards}>
          <Button variant="default" size="compact-xs" loading={tail.isReading} onClick={() => tail.readOn()}>
            {t('Load more')}
          </Button>
        </div>
      )}
      <p className={classes.foot}>
        {level !== 'all' &&
          (level === 'error'
            ? `${t('{count} errors in', { count: formatCount(shown.length) })} `
            : `${t('{count} warnings and errors in', { count: formatCount(shown.length) })} `)}
        {all.length === 0
          ? t('{lineCount} lines', { lineCount: formatCount(buffer.lineCount) })
          : t('{lines} {first} to {last} of {lineCount}', {
              lines: level === 'all' ? t('Lines') : t('lines'),
              first: formatCount(firstLine),
              last: formatCount(firstLine + all.length - 1),
              lineCount: formatCount(Math.max(buffer.lineCount, firstLine + all.length - 1)),
            })}
      </p>
    </Panel>
  );
}

function isOfLevel(line: string, wanted: string): boolean {
  if (wanted === 'all') return true;
  const own = levelOf(line);
  return own === 'error' || (own === 'warning' && wanted === 'warning');
}

/** "3 of 41": position among all matches in the file. */
function hitsText({ matches, isComplete, isSearching }: FoundInLog, hit: number): string {
  if (matches.length === 0) return isSearching ? t('Searching') : t('No match');
  return t('{hit} of {count}', {
    hit: formatCount(Math.min(hit, matches.length - 1) + 1),
    count: `${formatCount(matches.length)}${isComplete ? '' : '+'}`,
  });
}
