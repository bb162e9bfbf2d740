/** One log file: virtual lines, search with marks, level filter, follow. */

import { ActionIcon, Button, Select, Switch, TextInput, Tooltip } from '@mantine/core';
import { IconChevronDown, IconChevronUp, IconDownload, IconSearch } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useMutation } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useRef, useState } from 'react';

import { downloadLog } from '../../api/download';
import { useLogTail } from '../../hooks/useLogTail';
import { formatBytes, formatCount } from '../../model/format';
import { findLines, levelOf } from '../../model/logBuffer';
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
  const [text, setText] = useState('');
  const [level, setLevel] = useState('all');
  const [hit, setHit] = useState(0);
  const scroller = useRef<HTMLDivElement>(null);
  const tail = useLogTail(jobId, name, isFollowing && isLive);
  const { mutate: download, isPending: isDownloading } = useMutation({ mutationFn: () => downloadLog(jobId, name) });

  const { lines: all } = tail.buffer;
  const lines = useMemo(
    () =>
      level === 'all'
        ? all
        : all.filter((line) => {
            const own = levelOf(line);
            return own === 'error' || (own === 'warning' && level === 'warning');
          }),
    [all, level],
  );
  const hits = useMemo(() => findLines(lines, text), [lines, text]);
  const currentHit = hits[Math.min(hit, hits.length - 1)];
  // eslint-disable-next-line react-hooks/incompatible-library -- its functions are called in this component only
  const virtual = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_HEIGHT,
    overscan: 20,
  });
  useEffect(() => {
    if (isFollowing && text === '' && lines.length > 0) virtual.scrollToIndex(lines.length - 1, { align: 'end' });
  }, [isFollowing, text, lines.length, virtual]);
  useEffect(() => {
    if (currentHit !== undefined) virtual.scrollToIndex(currentHit, { align: 'center' });
  }, [currentHit, virtual]);

  const step = (by: number) => setHit((hits.length + Math.min(hit, hits.length - 1) + by) % Math.max(1, hits.length));
  return (
    <Panel flush label="Log">
      <div className={classes.bar}>
        {picker}
        <TextInput
          size="xs"
          w={180}
          placeholder="Search"
          aria-label="Search in the log"
          leftSection={<IconSearch size={15} />}
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            setHit(0);
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && hits.length > 0) step(event.shiftKey ? -1 : 1);
          }}
        />
        {text !== '' && (
          <span className={classes.hits} role="status">
            {hits.length === 0 ? 'no match' : `${Math.min(hit, hits.length - 1) + 1} of ${formatCount(hits.length)}`}
            <ActionIcon variant="subtle" color="gray" size="sm" aria-label="Previous match" onClick={() => step(-1)}>
              <IconChevronUp size={15} />
            </ActionIcon>
            <ActionIcon variant="subtle" color="gray" size="sm" aria-label="Next match" onClick={() => step(1)}>
              <IconChevronDown size={15} />
            </ActionIcon>
          </span>
        )}
        <Select
          size="xs"
          w={140}
          aria-label="Level"
          allowDeselect={false}
          value={level}
          onChange={(value) => setLevel(value ?? 'all')}
          data={[
            { value: 'all', label: 'All levels' },
            { value: 'warning', label: 'Warnings, errors' },
            { value: 'error', label: 'Errors only' },
          ]}
        />
        <span className={classes.spring} />
        {isLive && (
          <Switch
            size="sm"
            label="Follow"
            checked={isFollowing}
            onChange={(event) => setFollowing(event.currentTarget.checked)}
          />
        )}
        <Tooltip label="Download the whole file">
          <ActionIcon
            variant="default"
            size="md"
            aria-label="Download the whole file"
            loading={isDownloading}
            onClick={() => download()}
          >
            <IconDownload size={16} />
          </ActionIcon>
        </Tooltip>
      </div>
      {tail.error !== null && (
        <p className={classes.error} role="alert">
          {tail.error}
        </p>
      )}
      <div
        ref={scroller}
        className={classes.lines}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={`Lines of ${name}`}
        onWheel={(event) => {
          // who scrolls back wants to read
          if (event.deltaY < 0) setFollowing(false);
        }}
      >
        {tail.buffer.start > 0 && (
          <div className={classes.earlier}>
            <Button variant="default" size="compact-xs" loading={tail.isReadingBack} onClick={() => tail.readBack()}>
              Read {formatBytes(Math.min(tail.buffer.start, 128 * 1024))} further back
            </Button>
          </div>
        )}
        {tail.isLoaded && lines.length === 0 && (
          <p className={classes.nothing}>{all.length === 0 ? 'The file is empty.' : 'No line of that level.'}</p>
        )}
        <div className={classes.body} style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, start }) => {
            const line = lines[index] ?? '';
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
      <p className={classes.foot}>
        {formatCount(lines.length)} lines · {formatBytes(tail.buffer.size)}
      </p>
    </Panel>
  );
}
