/** The versions of the pipeline: what each changed, which one runs, and what can be done with it. */

import { ActionIcon, Menu } from '@mantine/core';
import { IconDots, IconX } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';

import { type VersionListed, fetchVersions } from '../../api/pipelines';
import type { Deployments } from '../../hooks/useDeployments';
import { useEditor } from '../../hooks/useEditor';
import { useRole } from '../../hooks/useSession';
import { useTimes } from '../../hooks/useTimes';
import { mayOperate, maySubmit } from '../../model/access';
import { t } from '../../texts/t';
import { ToneBadge } from '../StateBadge/StateBadge';
import classes from './Versions.module.css';

interface Props {
  readonly deployments: Deployments;
  /** Number of the version that is shown read-only; null: the draft is edited. */
  readonly shown: number | null;
  readonly isChanged: boolean;
  readonly onOpen: (version: number) => void;
  /** Sides as `Compare` takes them. */
  readonly onCompare: (sides: string) => void;
  readonly onRestore: (version: number) => void;
  readonly onDeploy: (version: number) => void;
  readonly onClose: () => void;
}

export function Versions(props: Props) {
  const { onClose } = props;
  const id = useEditor((state) => state.pipelineId);
  const head = useEditor((state) => state.head.number);
  const { data, error } = useQuery({
    queryKey: ['pipeline-versions', id, head],
    queryFn: () => fetchVersions(id),
    placeholderData: (before) => before,
    staleTime: 10_000,
  });
  return (
    <div className={classes.panel}>
      <header className={classes.head}>
        <h2>{t('Versions')}</h2>
        <ActionIcon variant="subtle" color="gray" aria-label={t('Close the versions')} onClick={onClose}>
          <IconX size={16} aria-hidden />
        </ActionIcon>
      </header>
      {error !== null && (
        <p role="alert" className={classes.note}>
          {error.message}
        </p>
      )}
      {data === undefined && error === null && <p className={classes.note}>{t('Reading the versions…')}</p>}
      <ol className={classes.list} aria-label={t('Versions')}>
        {(data ?? []).map((version) => (
          <Line key={version.number} version={version} newest={data?.[0]?.number ?? 0} {...props} />
        ))}
      </ol>
    </div>
  );
}

interface LineProps extends Props {
  readonly version: VersionListed;
  readonly newest: number;
}

function Line(props: LineProps) {
  const { version, newest, deployments, shown, isChanged, onOpen, onCompare, onRestore, onDeploy } = props;
  const times = useTimes();
  const role = useRole();
  const { number } = version;
  return (
    <li
      className={classes.version}
      data-shown={shown === number || undefined}
      aria-label={t('Version {number}', { number })}
    >
      <div className={classes.texts}>
        <div className={classes.top}>
          {t('Version {number}', { number })}
          {deployments.running?.version === number && (
            <ToneBadge tone="running" isPassing>
              {t('runs')}
            </ToneBadge>
          )}
          {number === newest && <span className="tm-dim">{t('newest')}</span>}
        </div>
        {version.message !== '' && <p className={classes.message}>{version.message}</p>}
        <p className={classes.by}>
          {times.dateTime(version.created_at)}
          {version.author !== null && ` ${t('by {author}', { author: version.author })}`}
        </p>
      </div>
      <Menu position="bottom-end" width={230}>
        <Menu.Target>
          <ActionIcon variant="subtle" color="gray" aria-label={t('Actions of version {number}', { number })}>
            <IconDots size={16} aria-hidden />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item disabled={shown === number} onClick={() => onOpen(number)}>
            {t('Open to read')}
          </Menu.Item>
          <Menu.Item
            disabled={number === newest && !isChanged && shown === null}
            onClick={() => onCompare(`${number}..draft`)}
          >
            {t('Compare with what is drawn')}
          </Menu.Item>
          <Menu.Item disabled={number === 1} onClick={() => onCompare(`${number - 1}..${number}`)}>
            {t('Compare with version {number}', { number: number === 1 ? '' : number - 1 })}
          </Menu.Item>
          {deployments.running !== null && deployments.running.version !== number && (
            <Menu.Item onClick={() => onCompare(`${deployments.running?.version ?? number}..${number}`)}>
              {t('Compare with what runs')}
            </Menu.Item>
          )}
          <Menu.Divider />
          <Menu.Item disabled={!maySubmit(role)} onClick={() => onRestore(number)}>
            {t('Restore as the draft')}
          </Menu.Item>
          <Menu.Item disabled={!mayOperate(role)} onClick={() => onDeploy(number)}>
            {t('Deploy')}
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </li>
  );
}
