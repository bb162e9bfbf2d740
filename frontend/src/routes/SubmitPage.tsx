/** Upload a program, look at its plan, run it. The chosen program is in the address. */

import { Alert, Skeleton } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { IconAlertTriangle, IconArrowLeft, IconLock } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { fetchRestorePoints } from '../api/checkpoints';
import { fetchPrograms, uploadProgram } from '../api/programs';
import { Dropzone } from '../components/Dropzone/Dropzone';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { Panel } from '../components/Panel/Panel';
import { ProgramList } from '../components/ProgramList/ProgramList';
import { RunForm } from '../components/RunForm/RunForm';
import type { JarFile } from '../gen/live';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import { useRole } from '../hooks/useSession';
import { maySubmit } from '../model/access';
import { refuseFile } from '../model/programForm';
import classes from './pages.module.css';

const PROGRAMS_KEY = ['programs'];

export function SubmitPage() {
  usePageTitle('Submit a job');
  const isAllowed = maySubmit(useRole());
  const [selected, select] = useQueryParam('program');
  const { data, error, refetch } = useQuery({ queryKey: PROGRAMS_KEY, queryFn: fetchPrograms });
  const { sending, problem, send } = useUpload(select);
  const client = useQueryClient();
  const program = data?.files.find(({ id }) => id === selected);
  return (
    <>
      <h1 className={classes.pageTitle}>Submit a job</h1>
      {!isAllowed && (
        <Alert color="gray" icon={<IconLock size={18} />}>
          Uploading and running programs needs the role developer.
        </Alert>
      )}
      <div className={classes.split}>
        <div className={classes.column}>
          <Dropzone onFile={send} disabled={!isAllowed} sending={sending} />
          {problem !== null && (
            <Alert role="alert" color="red" icon={<IconAlertTriangle size={18} />}>
              {problem}
            </Alert>
          )}
          <Panel title="Programs" flush>
            {error !== null && data === undefined && (
              <FailureState
                title="The programs cannot be listed"
                message={error.message}
                onRetry={() => void refetch()}
              />
            )}
            {error === null && data === undefined && <Skeleton height={120} radius={0} />}
            {data !== undefined && (
              <ProgramList
                programs={data.files}
                selected={selected}
                mayDelete={isAllowed}
                onSelect={select}
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
            <Panel label="Run">
              <EmptyState icon={IconArrowLeft} title="Choose a program">
                Then give it arguments, look at its plan, and run it.
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

/** The form, once it is known how the job ran that is to run again. */
function Run({ program, mayRun }: { readonly program: JarFile; readonly mayRun: boolean }) {
  const [again] = useQueryParam('again');
  const [savepoint] = useQueryParam('savepoint');
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
          How the job ran before is not known: {error.message}
        </Alert>
      )}
      <RunForm
        key={`${program.id} ${again ?? ''} ${savepoint ?? ''}`}
        program={program}
        mayRun={mayRun}
        before={data?.program ?? null}
        savepoint={savepoint ?? ''}
      />
    </>
  );
}

function useUpload(select: (id: string) => void) {
  const client = useQueryClient();
  const [sending, setSending] = useState<{ file: File; share: number } | null>(null);
  const [refused, setRefused] = useState<string | null>(null);
  const { mutate, error } = useMutation({
    mutationFn: (file: File) => uploadProgram(file, (share) => setSending({ file, share })),
    onSuccess: async (stored, file) => {
      const programs = await fetchPrograms();
      client.setQueryData(PROGRAMS_KEY, programs);
      const { files } = programs;
      // a server may call the stored file something else than its id: then it is the newest of that name
      const newest = files.filter(({ name }) => name === file.name).toSorted((a, b) => b.uploaded - a.uploaded)[0];
      const program = files.find(({ id }) => id === stored) ?? newest;
      if (program !== undefined) select(program.id);
      notifications.show({ title: 'Uploaded', message: file.name });
    },
    onSettled: () => setSending(null),
  });
  const send = (file: File) => {
    const problem = refuseFile(file.name, file.size);
    setRefused(problem);
    if (problem !== null) return;
    setSending({ file, share: 0 });
    mutate(file);
  };
  return { sending, problem: refused ?? error?.message ?? null, send };
}
