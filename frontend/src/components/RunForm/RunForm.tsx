/** Form for running a program: its settings, the resulting plan, and the run button. */

import { Alert, Button, Group, NumberInput, SegmentedControl, TextInput, Textarea } from '@mantine/core';
import { IconAlertTriangle, IconPlayerPlay, IconSchema } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { type SyntheticEvent, useState } from 'react';
import { useNavigate } from 'react-router';

import { fetchPlan, runProgram } from '../../api/programs';
import type { JarFile, RestorePoints, RunRequest } from '../../gen/contract';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import {
  FormError,
  configurationText,
  joinArguments,
  linesOf,
  parseConfiguration,
  splitArguments,
} from '../../model/programForm';
import { MAX_PARALLELISM, parallelismProblem } from '../../model/requirements';
import { t } from '../../texts/t';
import { EmptyState } from '../EmptyState/EmptyState';
import { ProgramNotes, type ProgramSaid } from '../ProgramNotes/ProgramNotes';
import { OperatorGraph } from '../OperatorGraph/OperatorGraph';
import { Panel } from '../Panel/Panel';
import { PlanGraph } from '../PlanGraph/PlanGraph';
import { NO_RESTORE, type Restore, RestoreFields, restoreRequest } from './RestoreFields';
import classes from './RunForm.module.css';

interface Props {
  readonly program: JarFile;
  readonly mayRun: boolean;
  /** Settings of the job to run again; the program may be a newer one. */
  readonly before: RestorePoints['program'];
  readonly savepoint: string;
  /** The module that was said at the upload to start the job; '' if none was. */
  readonly chosenEntry: string;
}

/** What the server shows in place of a secret. */
const HIDDEN = '******';
/** The option that has the packages of a job, which has a field of its own. */
const REQUIREMENTS = 'python.requirements';

export function RunForm({ program, mayRun, before, savepoint, chosenEntry }: Props) {
  const navigate = useNavigate();
  // a single file is its own entry, which the server lists under the file's name
  const isArchive = !program.name.endsWith('.py');
  const known = program.entry[0]?.name ?? '';
  const [entry, setEntry] = useState(chosenEntry || (before?.entry ?? (known === program.name ? '' : known)));
  const [parallelism, setParallelism] = useState<string | number>(before?.parallelism ?? '');
  const [programArguments, setArguments] = useState(() => joinArguments(before?.args ?? []));
  const { [REQUIREMENTS]: packagesBefore = '', ...optionsBefore } = before?.configuration ?? {};
  const [configuration, setConfiguration] = useState(() => configurationText(optionsBefore));
  const [packages, setPackages] = useState(packagesBefore);
  const [restore, setRestore] = useState<Restore>({ ...NO_RESTORE, path: savepoint });
  const plan = useMutation({ mutationFn: (settings: RunRequest) => fetchPlan(program.id, settings) });
  const [view, setView] = useState('operators');
  const run = useMutation({
    mutationFn: (settings: RunRequest) => runProgram(program.id, settings),
    onSuccess: ({ jobid, warnings, output }) =>
      navigate(`/jobs/${jobid}`, { state: { warnings, output } satisfies ProgramSaid }),
  });
  const start = useSingleFlight(run.mutate);
  const argumentsProblem = programArguments.includes(HIDDEN)
    ? t('Enter the secrets again that stand as {HIDDEN}', { HIDDEN })
    : problemOf(() => splitArguments(programArguments));
  const configurationProblem = problemOf(() => parseConfiguration(configuration));
  const parallelismMistake = parallelism === '' ? null : parallelismProblem(parallelism, MAX_PARALLELISM);
  const isValid = argumentsProblem === null && configurationProblem === null && parallelismMistake === null;

  const settings = (): RunRequest => ({
    ...(!isArchive || entry.trim() === '' ? {} : { entryClass: entry.trim() }),
    ...(parallelism === '' ? {} : { parallelism: Number(parallelism) }),
    programArgsList: splitArguments(programArguments),
    flinkConfiguration: parseConfiguration(configuration),
    ...(packages.trim() === '' ? {} : { pythonRequirements: linesOf(packages) }),
    ...restoreRequest(restore),
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (!isValid) return;
    // an earlier refusal says nothing about this run
    if (plan.isError) plan.reset();
    start(settings());
  };
  const failure = run.error ?? plan.error;
  return (
    <>
      <Panel title={t('Run {name}', { name: program.name })}>
        <form onSubmit={submit}>
          <div className={classes.fields}>
            {isArchive && (
              <TextInput
                label={t('Entry Module')}
                description={t('Needed if the archive has no __main__')}
                value={entry}
                onChange={(event) => setEntry(event.currentTarget.value)}
              />
            )}
            <NumberInput
              label={t('Parallelism')}
              description={t('If empty, the program decides')}
              min={1}
              max={MAX_PARALLELISM}
              clampBehavior="none"
              value={parallelism}
              error={parallelismMistake}
              onChange={setParallelism}
            />
            <TextInput
              className={classes.wide}
              label={t('Program Arguments')}
              description={t('As in a shell; quote arguments that contain spaces')}
              placeholder="--rate 1000 --name 'my job'"
              value={programArguments}
              error={argumentsProblem}
              onChange={(event) => setArguments(event.currentTarget.value)}
              classNames={{ input: 'tm-mono' }}
            />
            <Textarea
              className={classes.wide}
              label={t('Configuration')}
              description={t('One option per line')}
              placeholder="pipeline.auto-watermark-interval: 200 ms"
              autosize
              minRows={2}
              maxRows={10}
              value={configuration}
              error={configurationProblem}
              onChange={(event) => setConfiguration(event.currentTarget.value)}
              classNames={{ input: 'tm-mono' }}
            />
            <Textarea
              className={classes.wide}
              label={t('Python Packages')}
              description={t("Beside the engine's own; lines of a requirements file, for which there are wheels")}
              placeholder="geopy>=2,<3"
              autosize
              minRows={1}
              maxRows={10}
              value={packages}
              onChange={(event) => setPackages(event.currentTarget.value)}
              classNames={{ input: 'tm-mono' }}
            />
            <RestoreFields className={classes.wide} value={restore} onChange={setRestore} />
          </div>
          {before !== null && before.hidden.length > 0 && (
            <Alert color="orange" mt="md" icon={<IconAlertTriangle size={18} />}>
              {t('Secret options are not shown: enter {hidden} again.', { hidden: before.hidden.join(', ') })}
            </Alert>
          )}
          {failure !== null && (
            <Alert
              role="alert"
              color="red"
              mt="md"
              icon={<IconAlertTriangle size={18} />}
              title={t('The program was refused')}
            >
              <pre className={classes.failure}>{failure.message}</pre>
            </Alert>
          )}
          <Group justify="flex-end" mt="md">
            <Button
              variant="default"
              leftSection={<IconSchema size={17} stroke={1.8} />}
              disabled={!mayRun || !isValid}
              loading={plan.isPending}
              onClick={() => {
                run.reset();
                plan.mutate(settings());
              }}
            >
              {t('Show plan')}
            </Button>
            <Button
              type="submit"
              leftSection={<IconPlayerPlay size={17} stroke={1.8} />}
              disabled={!mayRun || !isValid}
              loading={run.isPending}
            >
              {t('Run')}
            </Button>
          </Group>
        </form>
      </Panel>
      <Panel title={plan.data === undefined ? t('Plan') : t('Plan of {name}', { name: plan.data.plan.name })} flush>
        {plan.data === undefined ? (
          <EmptyState compact icon={IconSchema} title={t('No plan yet')}>
            {t('“Show plan” draws what the program defines without starting the job.')}
          </EmptyState>
        ) : (
          <>
            <ProgramNotes said={plan.data} />
            <SegmentedControl
              m="sm"
              size="xs"
              value={view}
              onChange={setView}
              aria-label={t('What the plan shows')}
              data={[
                { value: 'operators', label: t('Operators') },
                { value: 'vertices', label: t('Job vertices') },
              ]}
            />
            {view === 'operators' ? (
              // a new plan begins with its first operator
              <OperatorGraph key={plan.submittedAt} plan={plan.data.operators} />
            ) : (
              <PlanGraph plan={plan.data.plan} />
            )}
          </>
        )}
      </Panel>
    </>
  );
}

function problemOf(parse: () => unknown): string | null {
  try {
    parse();
    return null;
  } catch (error) {
    if (error instanceof FormError) return error.message;
    throw error;
  }
}
