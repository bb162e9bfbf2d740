/**
 * Deploys a version: the draft is saved first if it differs; where a job of the pipeline runs, what becomes of its state
 * is shown before anything is stopped; then the deployment is followed to its end.
 */

import { Button, Checkbox, Group, Loader, TextInput } from '@mantine/core';
import { keepPreviousData, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useEffect, useMemo, useState } from 'react';
import { Link } from 'react-router';

import { ApiError } from '../../api/client';
import { checkCompatibility, deploy, fetchPipelineRestorePoints } from '../../api/deployments';
import { OtherRunsError, fetchVersion } from '../../api/pipelines';
import type { CompatibilityAnswer, NewDeployment } from '../../gen/contract';
import type { Autosave } from '../../hooks/useAutosave';
import { type Deployments, deploymentsKey } from '../../hooks/useDeployments';
import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { useWhenReady } from '../../hooks/useWhenReady';
import type { Problem } from '../../model/pipeline/catalog';
import { isUnderWay, nodeStates } from '../../model/pipeline/deployment';
import { nameOf } from '../../model/pipeline/document';
import { deployOnce } from '../../store/deployKeys';
import { outliving } from '../../model/restore';
import { documentOf } from '../../store/editor';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';
import { type Beginning, RestoreChoice } from '../RestoreChoice/RestoreChoice';
import classes from './Deploy.module.css';
import { DeployProgress } from './DeployProgress';
import { StateReport } from './StateReport';

export type Step =
  /** Null: what is drawn. */
  | { readonly kind: 'ask'; readonly version: number | null }
  /** `from`: the snapshot that is to be looked at first; "": the newest; "empty": none. "keep" or missing: the running job's state. */
  | { readonly kind: 'report'; readonly version: number; readonly from?: string }
  | { readonly kind: 'follow'; readonly deployment: string };

interface Props {
  readonly step: Step;
  readonly onStep: (step: Step) => void;
  readonly onClose: () => void;
  readonly autosave: Autosave;
  readonly deployments: Deployments;
  readonly isChanged: boolean;
}

const NONE: ReadonlySet<string> = new Set();

export function DeployDialog(props: Props) {
  const { step, onStep, onClose, deployments } = props;
  const id = useEditor((state) => state.pipelineId);
  const client = useQueryClient();
  const before = useBefore(deployments);
  const [reports, setReports] = useState(0);
  const { mutate, isPending, error, variables } = useMutation({
    mutationFn: (wanted: NewDeployment) => deployOnce(id, wanted, before ?? NONE, (each, key) => deploy(id, each, key)),
    onSuccess: (made) => onStep({ kind: 'follow', deployment: made.id }),
    onError: (failure, { version }) => {
      if (!(failure instanceof OtherRunsError)) return;
      // what was chosen was about another job
      setReports((count) => count + 1);
      onStep({ kind: 'report', version });
    },
    onSettled: () => void client.invalidateQueries({ queryKey: deploymentsKey(id) }),
  });
  const send = useSingleFlight(mutate);
  const sending = {
    onDeploy: send,
    isSending: isPending,
    sendError: error?.message ?? null,
    unanswered: isUnanswered(error) ? (variables ?? null) : null,
    isRead: before !== null,
  };
  const isReplacing = deployments.running !== null;
  const title = step.kind === 'follow' ? t('Deployment') : isReplacing ? t('Redeploy') : t('Deploy');
  return (
    <Dialog onClose={onClose} title={title} size="lg" centered>
      {step.kind === 'ask' && <Ask {...props} {...sending} version={step.version} />}
      {step.kind === 'report' && (
        <Report
          key={reports}
          {...props}
          {...sending}
          version={step.version}
          count={reports}
          from={reports === 0 ? step.from : undefined}
        />
      )}
      {step.kind === 'follow' && <Follow {...props} id={step.deployment} />}
    </Dialog>
  );
}

/** Whether a request may have done its work though it failed. */
function isUnanswered(error: Error | null): boolean {
  return error !== null && !(error instanceof ApiError && error.status > 0 && error.status < 500);
}

/** The deployments that there were when the dialog opened; null: they are being read. What the page knew may be old. */
function useBefore({ all, readAt }: Deployments): ReadonlySet<string> | null {
  const id = useEditor((state) => state.pipelineId);
  const client = useQueryClient();
  const [openedAt] = useState(Date.now);
  const [before, setBefore] = useState<ReadonlySet<string> | null>(null);
  useEffect(() => void client.invalidateQueries({ queryKey: deploymentsKey(id) }), [client, id]);
  if (before === null && all !== null && readAt > openedAt) setBefore(new Set(all.map((each) => each.id)));
  return before;
}

interface SendingProps extends Props {
  readonly onDeploy: (wanted: NewDeployment) => void;
  readonly isSending: boolean;
  readonly sendError: string | null;
  /** What was sent last, if its answer was lost. */
  readonly unanswered: NewDeployment | null;
  /** Whether it is known what runs now. */
  readonly isRead: boolean;
}

function Ask(props: SendingProps & { readonly version: number | null }) {
  const { version, onStep, onClose, autosave, deployments, isChanged } = props;
  const { onDeploy, isSending, sendError, unanswered, isRead } = props;
  const head = useEditor((state) => state.head.number);
  const blocking = useEditor((state) => state.validation.problems);
  const isDeployable = useEditor((state) => state.validation.is_deployable);
  const isChecked = useEditor((state) => state.validated === documentOf(state));
  const uncheckable = useEditor((state) => state.validationError);
  const [message, setMessage] = useState('');
  const [isRestoring, setRestoring] = useState(false);
  const isSaving = version === null && isChanged;
  const isReplacing = deployments.running !== null;
  // what runs by now may be what was asked for: a second try is the same wish
  const isRepeating = !isSaving && unanswered?.version === (version ?? head);
  const { mutate, isPending, error } = useMutation({
    mutationFn: async () => {
      if (!isSaving) return version ?? head;
      const saved = await autosave.save(message);
      if (saved === null)
        throw new Error(t('Somebody saved a version in the meantime; both were merged. Review the result first.'));
      return saved.number;
    },
    onSuccess: (number) => {
      if (unanswered?.version === number) onDeploy(unanswered);
      else if (isReplacing) onStep({ kind: 'report', version: number });
      else if (isRestoring) onStep({ kind: 'report', version: number, from: '' });
      else onDeploy({ version: number, replaces: null });
    },
  });
  const go = useSingleFlight(mutate);
  const missing = isRead ? (version === null && !isChecked ? uncheckable : null) : deployments.error;
  const isReady = isRead && (version !== null || (isChecked && isDeployable));
  const { ask, isWaiting } = useWhenReady(isReady, () => go(undefined));
  if (version === null && isChecked && !isDeployable) {
    const found = blocking.filter(({ severity }) => severity === 'error' || severity === 'incomplete');
    return <Blocked problems={found} onClose={onClose} />;
  }
  const what = isRepeating ? t('try again') : isReplacing || isRestoring ? t('review the state') : 'deploy';
  return (
    <form
      className={classes.body}
      onSubmit={(event) => {
        event.preventDefault();
        ask();
      }}
    >
      {isSaving ? (
        <>
          <p>
            {t('What is drawn differs from version {head}. It is saved as version {next} first.', {
              head,
              next: head + 1,
            })}
          </p>
          <TextInput
            data-autofocus
            label={t('What has changed')}
            placeholder={t('optional')}
            value={message}
            onChange={(event) => setMessage(event.currentTarget.value)}
          />
        </>
      ) : (
        <p>{t('Version {version} becomes a job.', { version: version ?? head })}</p>
      )}
      {deployments.running !== null && !isRepeating && (
        <p>
          {rich('Version {version} {runsAs}. It keeps running until you have reviewed what happens to its state.', {
            version: deployments.running.version,
            runsAs: <RunsAs jobId={deployments.running.job_id} />,
          })}
        </p>
      )}
      {deployments.running === null && !isRepeating && (
        <Checkbox
          label={t('Start from a snapshot')}
          description={t('A savepoint or checkpoint of an earlier job, or one at a path')}
          checked={isRestoring}
          onChange={(event) => setRestoring(event.currentTarget.checked)}
        />
      )}
      <Trouble text={error?.message ?? sendError ?? missing} />
      <Buttons onClose={onClose}>
        <Button type="submit" loading={isPending || isSending || isWaiting}>
          {isSaving ? t('Save and {what}', { what }) : what.charAt(0).toUpperCase() + what.slice(1)}
        </Button>
      </Buttons>
    </form>
  );
}

function Blocked({ problems, onClose }: { readonly problems: readonly Problem[]; readonly onClose: () => void }) {
  const store = useEditorStore();
  const document = useEditor(documentOf);
  return (
    <div className={classes.body}>
      <p>{t('The pipeline cannot run yet:')}</p>
      <ul className={classes.blocking} aria-label={t('Blocking problems')}>
        {problems.map((problem) => (
          <li key={problem.id}>
            {problem.node !== null && (
              <button
                type="button"
                className={classes.jump}
                onClick={() => {
                  onClose();
                  // the dialog gives the focus back first
                  setTimeout(() => store.getState().jumpTo(problem.node ?? '', problem.field));
                }}
              >
                {nameOf(document, problem.node)}
              </button>
            )}
            <span className="tm-break">{problem.message}</span>
          </li>
        ))}
      </ul>
      <Buttons onClose={onClose} />
    </div>
  );
}

function RunsAs({ jobId }: { readonly jobId: string | null }) {
  return jobId === null ? (
    <>{t('runs')}</>
  ) : (
    <>
      {rich('runs as {link}', {
        link: (
          <Link className="tm-link" to={`/jobs/${jobId}`}>
            {t('this job')}
          </Link>
        ),
      })}
    </>
  );
}

interface ReportProps extends SendingProps {
  readonly version: number;
  readonly count: number;
  readonly from: string | undefined;
}

/** Null: what is to be looked at is not known before the snapshots are. */
function beginningOf(from: string | undefined, points: readonly { location: string }[] | undefined): Beginning | null {
  if (from === undefined || from === 'keep') return { kind: 'keep' };
  if (from === 'empty') return { kind: 'empty' };
  if (from !== '') return { kind: 'snapshot', location: from };
  return points === undefined ? null : { kind: 'snapshot', location: points[0]?.location ?? '' };
}

function Report(props: ReportProps) {
  const { version, count, from, onClose, onDeploy, isSending, sendError, deployments } = props;
  const id = useEditor((state) => state.pipelineId);
  const { data: points, error: unlisted } = useQuery({
    queryKey: ['pipeline-restore-points', id],
    // what is deleted with the job that is replaced cannot be started from
    queryFn: async () => outliving(await fetchPipelineRestorePoints(id), 'stop'),
    staleTime: 0,
    retry: false,
  });
  const [chosen, setChosen] = useState<Beginning | null>(null);
  const begun = chosen ?? beginningOf(from, unlisted === null ? points : []);
  const location = begun?.kind === 'snapshot' ? begun.location : '';
  const { data, error, refetch, isPlaceholderData } = useQuery({
    queryKey: ['pipeline-compatibility', id, version, count, location],
    queryFn: async ({ signal }) => {
      const [report, { document }] = await Promise.all([
        checkCompatibility(id, version, location, signal),
        fetchVersion(id, version),
      ]);
      return { report, document };
    },
    enabled: begun !== null,
    placeholderData: keepPreviousData,
    // the job goes on, and its checkpoints change
    staleTime: 0,
    gcTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
    // a second try is about what the first one was about
    refetchOnReconnect: false,
  });
  const [isLeaving, setLeaving] = useState(false);
  const olds = deployments.running?.operators;
  const states = useMemo(
    () =>
      data === undefined || data.report.report === null
        ? null
        : nodeStates(data.report.report, data.document, data.report.nodes, olds ?? {}),
    [data, olds],
  );
  const choice = (beginning: Beginning, isReplacing: boolean) => (
    <RestoreChoice
      label={t('State')}
      points={points ?? []}
      value={beginning}
      onChange={(next) => {
        setChosen(next);
        setLeaving(false);
      }}
      keep={isReplacing ? t('Keep it, as above') : null}
      empty={{ label: t('Start empty, with sources at their beginning') }}
    />
  );
  if (error !== null) {
    return (
      <div className={classes.body}>
        <Trouble text={error.message} />
        {begun?.kind === 'snapshot' && choice(begun, deployments.running !== null)}
        <Buttons onClose={onClose}>
          <Button onClick={() => void refetch()}>{t('Try again')}</Button>
        </Buttons>
      </div>
    );
  }
  if (data === undefined) {
    return (
      <div className={classes.body} role="status">
        <Group gap="sm">
          <Loader size={18} aria-hidden /> {t('Compiling version {version} and reading the snapshot…', { version })}
        </Group>
        <Buttons onClose={onClose} />
      </div>
    );
  }
  const { report, running } = data.report;
  // what is kept of a job that has ended meanwhile is nothing
  const beginning: Beginning = begun === null || (running === null && begun.kind === 'keep') ? EMPTY : begun;
  const isKeeping = beginning.kind !== 'empty';
  const isPathless = beginning.kind === 'snapshot' && location === '';
  const isLooking = isPlaceholderData || isPathless;
  const isRefused = isKeeping && report !== null && !report.is_restorable;
  const isLosing = isKeeping && report?.loses_state === true;
  return (
    <form
      className={classes.body}
      onSubmit={(event) => {
        event.preventDefault();
        const replaces = running?.id ?? null;
        const wanted = { version, keeps_state: isKeeping, allows_loss: isLosing && isLeaving, replaces };
        onDeploy(location === '' ? wanted : { ...wanted, location });
      }}
    >
      <p>{whatHappens(version, running?.version ?? null, beginning, begun?.kind === 'keep')}</p>
      {isPlaceholderData && !isPathless ? (
        <Group gap="sm" role="status">
          <Loader size={18} aria-hidden /> {t('Reading the snapshot…')}
        </Group>
      ) : (
        isKeeping &&
        !isPathless && (
          <>
            <Told answer={data.report} isChosen={location !== ''} />
            {states !== null && <StateReport states={states} />}
          </>
        )
      )}
      {choice(beginning, running !== null)}
      {isLosing && (
        <Checkbox
          label={t('Leave the lost state behind')}
          checked={isLeaving}
          onChange={(event) => setLeaving(event.currentTarget.checked)}
        />
      )}
      <Trouble text={sendError ?? unlisted?.message ?? null} />
      <Buttons onClose={onClose}>
        <Button type="submit" loading={isSending} disabled={isLooking || isRefused || (isLosing && !isLeaving)}>
          {running === null ? t('Deploy') : t('Redeploy')}
        </Button>
      </Buttons>
    </form>
  );
}

const EMPTY: Beginning = { kind: 'empty' };

/** What a deployment does to the job that runs, and where the new one begins. */
function whatHappens(version: number, old: number | null, { kind }: Beginning, wasKept: boolean): string {
  const from = kind === 'snapshot' ? t('goes on from the chosen snapshot') : t('starts without state');
  if (old === null)
    return wasKept
      ? t('The job has ended in the meantime; version {version} {from}.', { version, from })
      : t('Version {version} {from}.', { version, from });
  const next = kind === 'keep' ? t('goes on from there') : from;
  return t(
    'Version {old} is stopped with a savepoint, and version {version} {next}. If that fails, version {old} comes back from the savepoint.',
    { old, version, next },
  );
}

/** What the report says as a whole. */
function Told({ answer, isChosen }: { readonly answer: CompatibilityAnswer; readonly isChosen: boolean }) {
  const { report, running, warnings } = answer;
  return (
    <>
      {running !== null && report === null && !isChosen && (
        <p>{t('The job has no checkpoint yet, so nothing is known about its state.')}</p>
      )}
      {report !== null && !report.is_restorable && (
        <p className={classes.problem} role="alert">
          {t('The state cannot be kept as it is.')} {report.refusal !== '' && `${report.refusal} `}
          {t('A node whose state cannot be read starts empty under another uid: duplicate it, and delete the old one.')}
        </p>
      )}
      {warnings.map((warning) => (
        <p key={warning} className="tm-dim">
          {warning}
        </p>
      ))}
    </>
  );
}

function Follow({ id, onClose, deployments }: Props & { readonly id: string }) {
  const found = deployments.all?.find((each) => each.id === id);
  if (found === undefined) {
    return (
      <div className={classes.body}>
        <Loader size={18} role="status" aria-label={t('Reading the deployment')} />
      </div>
    );
  }
  const old = deployments.all?.find((each) => each.id === found.previous);
  return (
    <div className={classes.body}>
      <DeployProgress
        deployment={found}
        old={old?.version ?? null}
        jobId={deployments.running?.job_id ?? found.job_id}
      />
      {isUnderWay(found) && <p className="tm-dim">{t('It continues if you close this dialog.')}</p>}
      <Buttons onClose={onClose} />
    </div>
  );
}

function Trouble({ text }: { readonly text: string | null }) {
  return text === null ? null : (
    <p role="alert" className={classes.problem}>
      {text}
    </p>
  );
}

function Buttons({ onClose, children }: { readonly onClose: () => void; readonly children?: ReactNode }) {
  return (
    <Group justify="flex-end" mt="xs">
      <Button variant="default" onClick={onClose}>
        {t('Close')}
      </Button>
      {children}
    </Group>
  );
}
