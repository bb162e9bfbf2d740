/** Three ways to begin, and the tour: large where nothing runs yet, else a line that can be put away. */

import { ActionIcon, UnstyledButton } from '@mantine/core';
import { type Icon, IconPlayerPlay, IconRoute, IconSchema, IconUpload, IconX } from '@tabler/icons-react';
import { useSyncExternalStore } from 'react';
import { Link } from 'react-router';

import { useRole, useSession } from '../../hooks/useSession';
import { maySubmit } from '../../model/access';
import type { Cluster } from '../../model/cluster';
import { getPreferences, setPreferences, subscribePreferences } from '../../store/preferences';
import { openTour } from '../../store/tour';
import { t } from '../../texts/t';
import classes from './Beginnings.module.css';

interface Way {
  readonly to: string;
  readonly icon: Icon;
  readonly title: string;
  readonly text: string;
}

function waysOf(cluster: Cluster, mayBegin: boolean): readonly Way[] {
  const running = cluster.jobs.find(({ state }) => state === 'RUNNING');
  const see = { icon: IconPlayerPlay, title: t('See it live') };
  return [
    ...(running !== undefined
      ? [
          {
            ...see,
            to: `/jobs/${running.id}`,
            text: t('{name} runs now: its graph, rates and watermarks', { name: running.name }),
          },
        ]
      : mayBegin
        ? [{ ...see, to: '/pipelines?template=', text: t('Take one of twelve templates and deploy it') }]
        : []),
    ...(mayBegin
      ? [
          {
            to: '/pipelines',
            icon: IconSchema,
            title: t('Draw your own'),
            text: t('Connect sources, windows and sinks'),
          },
          { to: '/submit', icon: IconUpload, title: t('Upload code'), text: t('A PyFlink-style .py, .zip or .whl') },
        ]
      : []),
  ];
}

/** With jobs on the page a line; without, the page's main content. */
export function Beginnings({ cluster }: { readonly cluster: Cluster }) {
  const { isPutAway } = useSyncExternalStore(subscribePreferences, getPreferences);
  const { data: session } = useSession();
  const ways = waysOf(cluster, maySubmit(useRole()));
  const isFirst = cluster.jobs.length === 0;
  if (!isFirst && isPutAway) return null;
  return (
    <section className={classes.beginnings} data-first={isFirst || undefined} aria-label={t('Get started')}>
      {ways.map(({ to, icon: WayIcon, title, text }) => (
        <Link key={title} to={to} className={classes.way} title={text}>
          <WayIcon size={isFirst ? 26 : 16} stroke={1.6} aria-hidden />
          <strong>{title}</strong>
          {isFirst && <span>{text}</span>}
        </Link>
      ))}
      <UnstyledButton className={classes.way ?? ''} onClick={() => openTour(session?.user.name ?? '')}>
        <IconRoute size={isFirst ? 26 : 16} stroke={1.6} aria-hidden />
        <strong>{t('Take the tour')}</strong>
        {isFirst && <span>{t('Six steps on the real pages')}</span>}
      </UnstyledButton>
      {!isFirst && (
        <ActionIcon
          variant="subtle"
          color="gray"
          size="sm"
          className={classes.away ?? ''}
          aria-label={t('Hide “Get started”')}
          onClick={() => setPreferences({ isPutAway: true })}
        >
          <IconX size={14} aria-hidden />
        </ActionIcon>
      )}
    </section>
  );
}
