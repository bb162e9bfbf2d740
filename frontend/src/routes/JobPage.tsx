/** A job: header and tabs. The tab and the selected vertex are in the URL. */

import { Skeleton, Tabs } from '@mantine/core';
import { useViewportSize } from '@mantine/hooks';
import { IconChevronRight } from '@tabler/icons-react';
import { type ReactNode, Suspense, lazy, useCallback, useEffect } from 'react';
import { Link, useLocation, useParams, useSearchParams } from 'react-router';

import { Autoscaler } from '../components/Autoscaler/Autoscaler';
import { CopyText } from '../components/CopyText/CopyText';
import { DataSkew } from '../components/DataSkew/DataSkew';
import { FailureState } from '../components/EmptyState/EmptyState';
import { EventTime } from '../components/EventTime/EventTime';
import { InSight } from '../components/InSight/InSight';
import { JobActions } from '../components/JobActions/JobActions';
import { JobPicture } from '../components/JobPipeline/JobPicture';
import { FailedNode, PipelineLink } from '../components/JobPipeline/JobPipeline';
import { JobNotices } from '../components/JobNotices/JobNotices';
import { SwitchNotice } from '../components/JobNotices/SwitchNotice';
import { JobTags } from '../components/JobTags/JobTags';
import { JobTimeline } from '../components/JobTimeline/JobTimeline';
import { Panel } from '../components/Panel/Panel';
import { ProgramNotes, type ProgramSaid } from '../components/ProgramNotes/ProgramNotes';
import { StateBadge } from '../components/StateBadge/StateBadge';
import { TabBar } from '../components/TabBar/TabBar';
import { drawerWidth } from '../components/VertexDrawer/size';
import { VertexTable } from '../components/VertexTable/VertexTable';
import { Why } from '../components/Why/Why';
import type { JobException } from '../gen/contract';
import {
  JobProvider,
  useJob,
  useJobArrival,
  useJobId,
  useJobPart,
  useReadJob,
  useVertex,
  useVertices,
} from '../hooks/useJob';
import { useJobPipeline, useJobProgram } from '../hooks/useJobPipeline';
import { useServerNow } from '../hooks/useNow';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import { useTimes } from '../hooks/useTimes';
import { vertexOfException } from '../model/exceptions';
import { formatDuration } from '../model/format';
import { exceptionsOf, stallsOf } from '../model/job';
import { failureCount } from '../model/notices';
import { isTerminal } from '../model/states';
import { recordJob } from '../store/metricHistory';
import { t } from '../texts/t';
import classes from './JobPage.module.css';
import { NotFoundPage } from './NotFoundPage';
import pages from './pages.module.css';

// not needed for the first look at a job
const BatchesTab = lazy(async () => ({ default: (await import('../components/Batches/BatchesTab')).BatchesTab }));
const CheckpointsTab = lazy(async () => ({
  default: (await import('../components/Checkpoints/CheckpointsTab')).CheckpointsTab,
}));
const ExceptionHistory = lazy(async () => ({
  default: (await import('../components/ExceptionList/ExceptionGroups')).ExceptionHistory,
}));
const ExceptionList = lazy(async () => ({
  default: (await import('../components/ExceptionList/ExceptionList')).ExceptionList,
}));
const JobConfiguration = lazy(async () => ({
  default: (await import('../components/JobConfiguration/JobConfiguration')).JobConfiguration,
}));
const JobRequirements = lazy(async () => ({
  default: (await import('../components/JobRequirements/JobRequirements')).JobRequirements,
}));
const LogViewer = lazy(async () => ({ default: (await import('../components/LogViewer/LogViewer')).LogViewer }));
const StateTab = lazy(async () => ({ default: (await import('../components/StateBrowser/StateTab')).StateTab }));
const VertexDrawer = lazy(async () => ({
  default: (await import('../components/VertexDrawer/VertexDrawer')).VertexDrawer,
}));

const TABS = [
  ['overview', t('Overview')],
  ['batches', t('Batches')],
  ['checkpoints', t('Checkpoints')],
  ['state', t('State')],
  ['exceptions', t('Exceptions')],
  ['logs', t('Logs')],
  ['configuration', t('Configuration')],
] as const;

export function JobPage() {
  const { jobId = '' } = useParams();
  const { isThere, missing, error } = useJobArrival(jobId);
  if (isThere) {
    return (
      <JobProvider key={jobId} value={jobId}>
        <JobTabs />
        <Recorder />
      </JobProvider>
    );
  }
  if (missing)
    return <NotFoundPage title={t('Job not found')}>{t('No job has the id {jobId}.', { jobId })}</NotFoundPage>;
  if (error !== null) return <FailureState isPage title={t('The job cannot be shown')} message={error} />;
  return (
    <>
      <h1 className="tm-visually-hidden">{t('Job')}</h1>
      <Skeleton height={64} radius={10} role="status" aria-busy="true" aria-label={t('Loading')} />
      <Skeleton height={420} radius={10} />
    </>
  );
}

/** Keeps the last minutes of a job that runs. */
function Recorder() {
  const now = useServerNow();
  const read = useReadJob();
  useEffect(() => {
    const job = read();
    if (!isTerminal(job.moving.job.state)) recordJob(job, now);
  }, [read, now]);
  return null;
}

function JobTabs() {
  const [param, setTab] = useQueryParam('tab', 'push');
  const isInBatches = useJobPart(({ moving }) => moving.checkpoints?.config.micro_batches === true);
  const tabs = TABS.filter(([value]) => isInBatches || value !== 'batches');
  const tab = tabs.some(([value]) => value === param) ? param : 'overview';
  const failures = useFailures();
  usePageTitle(useJobPart((job) => job.static.name));
  return (
    <>
      <Head />
      <JustStarted />
      <Tabs value={tab} onChange={setTab} keepMounted={false} classNames={{ panel: classes.panel ?? '' }}>
        <TabBar
          tabs={tabs.map(([each, label]) => [
            each,
            label,
            each === 'exceptions' && failures > 0 && <span className={classes.count}>{failures}</span>,
          ])}
          value={tab}
        />
        <Suspense fallback={<Skeleton height={320} radius={10} />}>
          <Tabs.Panel value="overview">
            <Overview />
          </Tabs.Panel>
          <Tabs.Panel value="batches">
            <BatchesTab />
          </Tabs.Panel>
          <Tabs.Panel value="checkpoints">
            <CheckpointsTab />
          </Tabs.Panel>
          <Tabs.Panel value="state">
            <StateTab jobId={useJobId()} />
          </Tabs.Panel>
          <Tabs.Panel value="exceptions">
            <Exceptions />
          </Tabs.Panel>
          <Tabs.Panel value="logs">
            <Logs />
          </Tabs.Panel>
          <Tabs.Panel value="configuration">
            <JobConfiguration jobId={useJobId()} />
          </Tabs.Panel>
        </Suspense>
      </Tabs>
    </>
  );
}

function useExceptions() {
  return useJobPart(({ moving }) => exceptionsOf(moving.exceptions));
}

function useFailures(): number {
  return useJobPart(({ moving }) => failureCount(moving.job.failures, Object.keys(moving.exceptions).length));
}

function useIsEnded(): boolean {
  return useJobPart(({ moving }) => isTerminal(moving.job.state));
}

function Exceptions() {
  const vertices = useVertices();
  const vertexLink = (exception: JobException) => {
    const vertex = vertexOfException(exception, vertices);
    return vertex === null ? null : `?vertex=${encodeURIComponent(vertex)}`;
  };
  const exceptions = useExceptions();
  const drawn = useJobPipeline(useJobId());
  const { program } = useJobProgram(drawn, exceptions.length > 0);
  const origin = (exception: JobException) =>
    drawn === null || program === null ? null : <FailedNode exception={exception} drawn={drawn} program={program} />;
  return (
    <ExceptionList
      exceptions={exceptions}
      total={useFailures()}
      vertexLink={vertexLink}
      origin={origin}
      history={<ExceptionHistory exceptions={exceptions} origin={origin} />}
    />
  );
}

function Logs() {
  return <LogViewer jobId={useJobId()} isLive={!useIsEnded()} vertices={useVertices()} />;
}

/** The program's output when it was run from this page; gone with the next navigation. */
function JustStarted() {
  const { state } = useLocation() as { readonly state: ProgramSaid | null };
  const { warnings = [], output = '' } = state ?? {};
  if (warnings.length === 0 && output === '') return null;
  return (
    <Panel title={t('Output of the program')} flush>
      <ProgramNotes said={{ warnings, output }} />
    </Panel>
  );
}

function Head() {
  const job = useJob();
  const times = useTimes();
  return (
    <header className={classes.head}>
      <nav className={pages.crumbs} aria-label={t('Breadcrumb')}>
        <Link to="/">{t('Jobs')}</Link>
        <IconChevronRight size={14} aria-hidden />
        <CopyText text={job.id} label={t('job id')} />
        <PipelineLink jobId={job.id} />
      </nav>
      <div className={pages.titleRow}>
        <div className={classes.title}>
          <h1 className={pages.pageTitle} title={job.name}>
            {job.name}
          </h1>
          <StateBadge state={job.state} />
        </div>
        <JobActions job={job} />
      </div>
      <dl className={classes.facts}>
        <Fact name={t('Start Time')} value={times.dateTime(job.start_time)} />
        {job.end_time >= 0 && <Fact name={t('End Time')} value={times.dateTime(job.end_time)} />}
        <Fact name={t('Parallelism')} value={String(job.parallelism)} />
        <Fact name={t('Attempt')} value={String(job.attempt)} />
        <Fact name={t('Restarts')} value={String(job.restarts)} />
        {/* the last: it needs no fixed width to keep the others in their places */}
        <Fact name={t('Duration')} value={<Duration start={job.start_time} end={job.end_time} />} />
      </dl>
      <JobTags jobId={job.id} />
      <Notices />
    </header>
  );
}

interface FactProps {
  readonly name: string;
  readonly value: ReactNode;
}

function Fact({ name, value }: FactProps) {
  return (
    <div className={classes.fact}>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Duration({ start, end }: { readonly start: number; readonly end: number }) {
  const now = useServerNow();
  return formatDuration(Math.max(0, (end < 0 ? now : end) - start));
}

function Notices() {
  const job = useJob();
  const exceptions = useExceptions();
  const stalls = useJobPart(({ moving }) => stallsOf(moving.stalls));
  const operations = useJobPart(({ moving }) => moving.operations);
  const told = { ...job, exceptions, stalls, operations: Object.values(operations) };
  return (
    <JobNotices job={told} now={useServerNow()}>
      <SwitchNotice job={job} />
    </JobNotices>
  );
}

function Overview() {
  const [params, setParams] = useSearchParams();
  const selected = params.get('vertex');
  const select = useCallback(
    (id: string | null) =>
      setParams((old) => {
        const next = new URLSearchParams(old);
        if (id === null) {
          next.delete('vertex');
          next.delete('vtab');
        } else {
          next.set('vertex', id);
        }
        return next;
      }),
    [setParams],
  );
  const isEnded = useIsEnded();
  const hasVertex = useVertex(selected ?? '') !== undefined;
  const { width } = useViewportSize();
  const coveredRight = hasVertex ? drawerWidth(width) : 0;
  return (
    <>
      <Why onSelect={select} />
      <JobPicture selected={selected} onSelect={select} coveredRight={coveredRight} />
      <Panel flush title={t('Vertices')}>
        <VertexTable selected={selected} onSelect={select} />
      </Panel>
      <InSight className={classes.part}>
        <JobTimeline />
      </InSight>
      <InSight className={classes.part}>
        <EventTime onSelect={select} />
      </InSight>
      <InSight className={classes.part}>
        <DataSkew onSelect={select} />
      </InSight>
      {!isEnded && (
        <Suspense>
          <JobRequirements />
        </Suspense>
      )}
      <Autoscaler />
      <Suspense>
        <VertexDrawer vertexId={selected} onClose={() => select(null)} />
      </Suspense>
    </>
  );
}
