/** Upload a program, view its plan, run it. The chosen program is in the URL. */

import { Alert, Skeleton } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconAlertTriangle, IconArrowLeft, IconLock } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useCallback, useState } from 'react';
import { useSearchParams } from 'react-router';

import { packArchive } from '../api/archive';
import { fetchRestorePoints } from '../api/checkpoints';
import { fetchPrograms, uploadProgram } from '../api/programs';
import { Dropzone } from '../components/Dropzone/Dropzone';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { EntryDialog } from '../components/EntryDialog/EntryDialog';
import { Panel } from '../components/Panel/Panel';
import { ProgramList } from '../components/ProgramList/ProgramList';
import { RunForm } from '../components/RunForm/RunForm';
import type { JarFile } from '../gen/contract';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import { useRole, useSubmissionRefusal } from '../hooks/useSession';
import { maySubmit } from '../model/access';
import { type Picked, type UploadPlan, planUpload } from '../model/programFiles';
import { t } from '../texts/t';
import classes from './pages.module.css';

const PROGRAMS_KEY = ['programs'];

export function SubmitPage() {
  usePageTitle(t('Submit New Job'));
  const mayDelete = maySubmit(useRole());
  const refusal = useSubmissionRefusal();
  const isAllowed = mayDelete && refusal === '';
  const [selected, select] = useSelection();
  const { data, error, refetch } = useQuery({ queryKey: PROGRAMS_KEY, queryFn: fetchPrograms });
  const upload = useUpload(select);
  const client = useQueryClient();
  const program = data?.files.find(({ id }) => id === selected);
  return (
    <>
      <h1 className={classes.pageTitle}>{t('Submit New Job')}</h1>
      {!isAllowed && (
        <Alert color="gray" icon={<IconLock size={18} />}>
          {refusal !== '' ? refusal : t('Uploading and running programs requires the role developer.')}
        </Alert>
      )}
      <div className={classes.split}>
        <div className={classes.column}>
          <Dropzone
            onFiles={upload.offer}
            onUnreadable={upload.refuse}
            disabled={!isAllowed}
            sending={upload.sending}
          />
          {upload.asked !== null && (
            <EntryDialog
              name={upload.asked.name}
              modules={upload.asked.modules}
              onChosen={upload.choose}
              onClose={upload.forget}
            />
          )}
          {upload.problem !== null && (
            <Alert role="alert" color="red" icon={<IconAlertTriangle size={18} />}>
              {upload.problem}
            </Alert>
          )}
          <Panel title={t('Programs')} flush>
            {error !== null && data === undefined && (
              <FailureState
                title={t('The programs cannot be listed')}
                message={error.message}
                onRetry={() => void refetch()}
              />
            )}
            {error === null && data === undefined && <Skeleton height={120} radius={0} />}
            {data !== undefined && (
              <ProgramList
                programs={data.files}
                selected={selected}
                mayDelete={mayDelete}
                onSelect={(id) => select(id)}
                onDeleted={(id) => {
                  if (id === selected) select(null);
                  void client.invalidateQueries({ queryKey: PROGRAMS_KEY });
                }}
              />
            )}
          </Panel>
        </div>
        <div className={classes.column}>
          {program === undefined ? (
            <Panel label={t('Run')}>
              <EmptyState icon={IconArrowLeft} title={t('Choose a program')}>
                {t('Then set its arguments, view its plan, and run it.')}
              </EmptyState>
            </Panel>
          ) : (
            <Run program={program} mayRun={isAllowed} />
          )}
        </div>
      </div>
    </>
  );
}

/** The form, once the settings of the job to run again are loaded. */
function Run({ program, mayRun }: { readonly program: JarFile; readonly mayRun: boolean }) {
  const [again] = useQueryParam('again');
  const [savepoint] = useQueryParam('savepoint');
  const [entry] = useQueryParam('entry');
  const { data, error } = useQuery({
    queryKey: ['restore-points', again],
    queryFn: () => fetchRestorePoints(again ?? ''),
    enabled: again !== null,
  });
  if (again !== null && data === undefined && error === null) return <Skeleton height={320} radius={10} />;
  return (
    <>
      {error !== null && (
        <Alert role="alert" color="orange" icon={<IconAlertTriangle size={18} />}>
          {t('The job’s earlier settings cannot be read: {message}', { message: error.message })}
        </Alert>
      )}
      <RunForm
        key={`${program.id} ${again ?? ''} ${savepoint ?? ''} ${entry ?? ''}`}
        program={program}
        mayRun={mayRun}
        before={data?.program ?? null}
        savepoint={savepoint ?? ''}
        chosenEntry={entry ?? ''}
      />
    </>
  );
}

/** The program that is chosen, and which of its modules was said to start the job. */
function useSelection(): [string | null, (id: string | null, entry?: string) => void] {
  const [params, setParams] = useSearchParams();
  const select = useCallback(
    (id: string | null, entry = '') =>
      setParams(
        (old) => {
          const next = new URLSearchParams(old);
          for (const [name, value] of [
            ['program', id ?? ''],
            ['entry', entry],
          ] as const) {
            if (value === '') next.delete(name);
            else next.set(name, value);
          }
          return next;
        },
        { replace: true },
      ),
    [setParams],
  );
  return [params.get('program'), select];
}

type Archive = Extract<UploadPlan<File>, { readonly kind: 'archive' }>;

interface Upload {
  readonly file: File;
  readonly entry: string;
}

/** From what was picked to the program on the server; in between it may have to be asked what starts the job. */
function useUpload(select: (id: string, entry: string) => void) {
  const client = useQueryClient();
  const [sending, setSending] = useState<{ file: File; share: number } | null>(null);
  const [refused, refuse] = useState<string | null>(null);
  const [asked, ask] = useState<Archive | null>(null);
  const { mutate, error } = useMutation({
    mutationFn: ({ file }: Upload) => uploadProgram(file, (share) => setSending({ file, share })),
    onSuccess: async (stored, { file, entry }) => {
      const programs = await fetchPrograms();
      client.setQueryData(PROGRAMS_KEY, programs);
      const { files } = programs;
      // the server may name the stored file differently from its id: then take the newest of that name
      const newest = files.filter(({ name }) => name === file.name).toSorted((a, b) => b.uploaded - a.uploaded)[0];
      const program = files.find(({ id }) => id === stored) ?? newest;
      if (program !== undefined) select(program.id, entry);
      notifications.show({ title: t('Uploaded'), message: file.name });
    },
    onSettled: () => setSending(null),
  });
  const send = (file: File, entry: string) => {
    setSending({ file, share: 0 });
    mutate({ file, entry });
  };
  const pack = ({ name, members }: Archive, entry: string) =>
    packArchive(name, members).then(
      (file) => send(file, entry),
      (reason: unknown) => refuse(reason instanceof Error ? reason.message : String(reason)),
    );
  const offer = (picked: Picked<File>[]) => {
    const plan = planUpload(picked);
    refuse(plan.kind === 'refused' ? plan.problem : null);
    if (plan.kind === 'file') send(plan.file, '');
    if (plan.kind !== 'archive') return;
    if (plan.entry === null) ask(plan);
    else void pack(plan, plan.entry);
  };
  const choose = (entry: string) => {
    ask(null);
    if (asked !== null) void pack(asked, entry);
  };
  return { sending, problem: refused ?? error?.message ?? null, refuse, offer, asked, choose, forget: () => ask(null) };
}
