/** Everything by its name: nodes and actions of the open page, pipelines, jobs, pages. Loaded when it is first opened. */

import { TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useId, useMemo, useRef, useState } from 'react';
import { useNavigate } from 'react-router';

import { fetchPipelines } from '../../api/pipelines';
import { useCluster } from '../../hooks/useLive';
import { useWhenReady } from '../../hooks/useWhenReady';
import { searched } from '../../model/commandSearch';
import { type Command, commandsOfPage } from '../../store/commands';
import { t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';
import classes from './CommandPalette.module.css';

const PAGES: readonly (readonly [string, string])[] = [
  [t('Overview'), '/'],
  [t('Pipelines'), '/pipelines'],
  [t('Connections'), '/connections'],
  [t('Submit New Job'), '/submit'],
  [t('Savepoints'), '/savepoints'],
  [t('Job Managers'), '/jobmanagers'],
  [t('Task Managers'), '/taskmanagers'],
];
const MAX_SHOWN = 60;

export function CommandPalette({ onClose }: { readonly onClose: () => void }) {
  const navigate = useNavigate();
  const [own] = useState(commandsOfPage);
  const { data: pipelines } = useQuery({ queryKey: ['pipelines', false], queryFn: fetchPipelines, staleTime: 10_000 });
  const { data: cluster } = useCluster();
  const [text, setText] = useState('');
  const [index, setIndex] = useState(0);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const found = useMemo(() => {
    const to = (path: string) => () => void navigate(path);
    const known = (pipelines ?? []).map((each): Command => ({
      id: each.id,
      group: t('Pipelines'),
      title: each.name,
      run: to(`/pipelines/${each.id}/edit`),
    }));
    const jobs = (cluster?.jobs ?? []).map((job): Command => ({
      id: job.id,
      group: t('Jobs'),
      title: job.name,
      hint: job.state,
      run: to(`/jobs/${job.id}`),
    }));
    const pages = PAGES.map(([title, path]): Command => ({ id: path, group: t('Pages'), title, run: to(path) }));
    return searched([...own, ...known, ...jobs, ...pages], text).slice(0, MAX_SHOWN);
  }, [own, pipelines, cluster, text, navigate]);
  const chosen = Math.min(index, found.length - 1);
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' });
  }, [chosen, found]);
  const run = (command: Command | undefined) => {
    if (command === undefined) return;
    onClose();
    // the dialog gives the focus back first
    setTimeout(command.run);
  };
  const isAllKnown = pipelines !== undefined && cluster !== undefined;
  const { ask } = useWhenReady(found.length > 0 || isAllKnown, () => run(found[chosen]), text);
  const optionId = (at: number) => `${id}-${at}`;
  return (
    <Dialog
      onClose={onClose}
      withCloseButton={false}
      size="lg"
      padding="sm"
      yOffset="12vh"
      title={t('Commands')}
      classNames={{ header: 'tm-visually-hidden' }}
    >
      <TextInput
        className={classes.input ?? ''}
        data-autofocus
        role="combobox"
        aria-label={t('Search commands')}
        aria-expanded
        aria-controls={id}
        aria-activedescendant={chosen >= 0 ? optionId(chosen) : undefined}
        placeholder={t('Search nodes, actions, pipelines and jobs')}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setIndex(0);
        }}
        onKeyDown={(event) => {
          const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
          if (step !== undefined && found.length > 0) setIndex((chosen + step + found.length) % found.length);
          else if (event.key === 'Enter') ask();
          else return;
          event.preventDefault();
        }}
      />
      <ul ref={list} id={id} role="listbox" aria-label={t('Commands')} className={classes.list}>
        {found.map((command, at) => (
          <Line
            key={`${command.group} ${command.id}`}
            id={optionId(at)}
            command={command}
            isFirst={found[at - 1]?.group !== command.group}
            isChosen={at === chosen}
            onPoint={() => setIndex(at)}
            onRun={() => run(command)}
          />
        ))}
      </ul>
      {found.length === 0 && <p className={classes.none}>{t('No matches.')}</p>}
    </Dialog>
  );
}

interface LineProps {
  readonly id: string;
  readonly command: Command;
  /** The first one of its group in a row. */
  readonly isFirst: boolean;
  readonly isChosen: boolean;
  readonly onPoint: () => void;
  readonly onRun: () => void;
}

function Line({ id, command, isFirst, isChosen, onPoint, onRun }: LineProps) {
  return (
    <>
      {isFirst && (
        <li role="presentation" className={classes.group}>
          {command.group}
        </li>
      )}
      <li
        id={id}
        role="option"
        aria-selected={isChosen}
        className={classes.command}
        onPointerMove={onPoint}
        onClick={onRun}
      >
        <span className={classes.title}>{command.title}</span>
        {command.hint !== undefined && <span className={classes.hint}>{command.hint}</span>}
      </li>
    </>
  );
}
