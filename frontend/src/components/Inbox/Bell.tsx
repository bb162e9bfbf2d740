/** The bell in the header: how much has happened since the user last looked, and what, each with a link to more. */

import { ActionIcon, Button, Indicator, Popover } from '@mantine/core';
import { IconBell } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { Link } from 'react-router';

import { fetchInbox, markRead } from '../../api/inbox';
import type { Happening, Inbox } from '../../gen/contract';
import { useTimes } from '../../hooks/useTimes';
import { bellLabel, countText, linkOf } from '../../model/inbox';
import { t } from '../../texts/t';
import classes from './Bell.module.css';

const KEY = ['inbox'];
/** More often: requests of every open page for what happens now and then. */
const REFRESH_MS = 30_000;

export function Bell() {
  const client = useQueryClient();
  const { data, error } = useQuery({ queryKey: KEY, queryFn: fetchInbox, refetchInterval: REFRESH_MS });
  const [isOpen, setOpen] = useState(false);
  /** What was new when the list was shown stays marked while it is; null: it has not been shown. */
  const [readBefore, setReadBefore] = useState<number | null>(null);
  const { mutate: read } = useMutation({
    mutationFn: markRead,
    onMutate: () => setReadBefore((before) => before ?? data?.read_at ?? null),
    onSuccess: (inbox) => client.setQueryData<Inbox>(KEY, inbox),
  });
  const unread = data?.unread ?? 0;
  const happenings = data?.happenings ?? [];
  const newest = happenings[0]?.at;
  // also of what comes while the list is open
  useEffect(() => {
    if (isOpen && unread > 0 && newest !== undefined) read(newest);
  }, [isOpen, unread, newest, read]);
  const open = (isWanted: boolean) => {
    setOpen(isWanted);
    setReadBefore(null);
  };
  const readAt = readBefore ?? data?.read_at ?? 0;
  return (
    <Indicator disabled={unread === 0} label={countText(unread)} size={16} offset={4} color="red.8">
      <Popover
        opened={isOpen}
        onChange={open}
        position="bottom-end"
        width="min(420px, calc(100vw - 24px))"
        trapFocus
        returnFocus
      >
        <Popover.Target>
          <ActionIcon
            variant="subtle"
            color="gray"
            size="lg"
            aria-label={bellLabel(unread)}
            onClick={() => open(!isOpen)}
          >
            <IconBell size={19} stroke={1.7} />
          </ActionIcon>
        </Popover.Target>
        <Popover.Dropdown p={0}>
          <section aria-label={t('What happened')} className={classes.inbox}>
            <header className={classes.head}>
              <h2 className={classes.title}>{t('What happened')}</h2>
              <Button size="compact-xs" variant="subtle" onClick={() => open(false)}>
                {t('Close')}
              </Button>
            </header>
            {error !== null && data === undefined && <p className={classes.nothing}>{error.message}</p>}
            {data !== undefined && happenings.length === 0 && (
              <p className={classes.nothing}>{t('Nothing in the last seven days.')}</p>
            )}
            <ul className={classes.list}>
              {happenings.map((happening, index) => (
                <Entry
                  key={`${happening.at}-${happening.kind}-${happening.subject}-${index}`}
                  happening={happening}
                  isNew={happening.at > readAt}
                  onFollow={() => open(false)}
                />
              ))}
            </ul>
            {data?.is_cut === true && <p className={classes.nothing}>{t('What happened before is not shown.')}</p>}
          </section>
        </Popover.Dropdown>
      </Popover>
    </Indicator>
  );
}

interface EntryProps {
  readonly happening: Happening;
  readonly isNew: boolean;
  readonly onFollow: () => void;
}

function Entry({ happening, isNew, onFollow }: EntryProps) {
  const times = useTimes();
  const { at, name, text, is_bad: isBad } = happening;
  return (
    <li data-new={isNew || undefined} data-bad={isBad || undefined}>
      <Link to={linkOf(happening)} className={classes.entry} onClick={onFollow}>
        <span className={classes.line}>
          <strong className={classes.name}>{name}</strong>
          <time className={classes.time} dateTime={new Date(at).toISOString()}>
            {times.dateTime(at)}
          </time>
        </span>
        <span className={classes.text}>
          {isNew && <span className="tm-visually-hidden">{t('New: ')}</span>}
          {text}
        </span>
      </Link>
    </li>
  );
}
