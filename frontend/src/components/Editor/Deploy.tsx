/** In the header: which version runs, the deployment that is under way, and the button that deploys. */

import { Button, Menu } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconChevronDown, IconLoader2, IconPlayerPlayFilled, IconRocket } from '@tabler/icons-react';
import { Suspense, lazy, useEffect, useEffectEvent, useRef } from 'react';
import { Link } from 'react-router';

import type { Autosave } from '../../hooks/useAutosave';
import { type Deployments, useJobState } from '../../hooks/useDeployments';
import { useEditor } from '../../hooks/useEditor';
import { useRole, useSubmissionRefusal } from '../../hooks/useSession';
import { mayOperate } from '../../model/access';
import { isUnderWay, outcomeOf } from '../../model/pipeline/deployment';
import { type AnyState, toneOf } from '../../model/states';
import { t } from '../../texts/t';
import classes from './Deploy.module.css';
import type { Step } from './DeployDialog';

const DeployDialog = lazy(async () => ({ default: (await import('./DeployDialog')).DeployDialog }));

/** Which version runs, with a link to its job; or how far its deployment is. */
export function RunningChip({
  deployments,
  onFollow,
}: {
  readonly deployments: Deployments;
  readonly onFollow: (id: string) => void;
}) {
  const { newest, running } = deployments;
  const state = useJobState(running?.job_id ?? null) ?? running?.job_state ?? '';
  if (newest !== null && isUnderWay(newest)) {
    return (
      <button type="button" className={classes.chip} data-tone="waiting" onClick={() => onFollow(newest.id)}>
        <IconLoader2 size={13} aria-hidden />{' '}
        {t('Deploying version {version} · {state}', { version: newest.version, state: newest.state })}
      </button>
    );
  }
  if (running === null) return null;
  const tone = toneOf(state as AnyState);
  return (
    <Link to={`/jobs/${running.job_id ?? ''}`} className={classes.chip} data-tone={tone} title={t('Open the job')}>
      <IconPlayerPlayFilled size={11} aria-hidden />
      {state === 'RUNNING'
        ? t('Version {version} runs', { version: running.version })
        : t('Version {version} is {state}', { version: running.version, state })}
    </Link>
  );
}

interface Props {
  readonly autosave: Autosave;
  readonly deployments: Deployments;
  readonly isChanged: boolean;
  readonly step: Step | null;
  readonly onStep: (step: Step | null) => void;
  readonly onVersions: () => void;
}

export function Deploy({ autosave, deployments, isChanged, step, onStep, onVersions }: Props) {
  const isAllowed = mayOperate(useRole());
  const refusal = useSubmissionRefusal();
  const isEmpty = useEditor((state) => Object.keys(state.history.present.nodes).length === 0);
  const { newest, running } = deployments;
  const isBusy = newest !== null && isUnderWay(newest);
  useEndings(deployments, step);
  return (
    <>
      <div className={classes.split}>
        <Button
          size="sm"
          variant="light"
          leftSection={<IconRocket size={17} aria-hidden />}
          disabled={!isAllowed || isEmpty || isBusy || refusal !== ''}
          title={refusal !== '' ? refusal : undefined}
          onClick={() => onStep({ kind: 'ask', version: null })}
        >
          {running === null ? t('Deploy') : t('Redeploy')}
        </Button>
        <Menu position="bottom-end" width={240}>
          <Menu.Target>
            <Button size="sm" variant="light" aria-label={t('More about deployments')}>
              <IconChevronDown size={16} aria-hidden />
            </Button>
          </Menu.Target>
          <Menu.Dropdown>
            <Menu.Item
              disabled={newest === null}
              onClick={() => newest !== null && onStep({ kind: 'follow', deployment: newest.id })}
            >
              {t('Last deployment')}
            </Menu.Item>
            <Menu.Item onClick={onVersions}>{t('Another version…')}</Menu.Item>
            {running?.job_id !== null && running?.job_id !== undefined && (
              <Menu.Item component={Link} to={`/jobs/${running.job_id}`}>
                {t('Open the job')}
              </Menu.Item>
            )}
          </Menu.Dropdown>
        </Menu>
      </div>
      {step !== null && (
        <Suspense>
          <DeployDialog
            step={step}
            onStep={onStep}
            onClose={() => onStep(null)}
            autosave={autosave}
            deployments={deployments}
            isChanged={isChanged}
          />
        </Suspense>
      )}
    </>
  );
}

/** Says how a deployment has ended that nobody looks at. */
function useEndings({ all, newest }: Deployments, step: Step | null): void {
  const open = useRef<string | null>(null);
  const state = newest?.state ?? null;
  const id = newest?.id ?? null;
  const onChange = useEffectEvent(() => {
    if (newest === null) return;
    if (isUnderWay(newest)) {
      open.current = newest.id;
      return;
    }
    if (open.current !== newest.id) return;
    open.current = null;
    if (step?.kind === 'follow') return;
    const old = all?.find((each) => each.id === newest.previous)?.version ?? null;
    const isGood = newest.state === 'RUNNING';
    notifications.show({
      title: outcomeOf(newest, old),
      message: newest.message.slice(0, 300),
      color: isGood ? 'teal' : 'red',
      autoClose: isGood ? 10_000 : false,
      withCloseButton: true,
    });
  });
  useEffect(() => onChange(), [id, state]);
}
