/** All pipelines: who owns them, their last version, what runs, and whether the user has a draft. */

import { Button, Group, SegmentedControl, Skeleton, Text } from '@mantine/core';
import { IconPlug, IconPlus, IconSchema, IconTemplate } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useNavigate } from 'react-router';

import { fetchArchived } from '../api/pipelineFiles';
import { type PipelineListed, archivePipeline, createPipeline, fetchPipelines } from '../api/pipelines';
import { Dialog } from '../components/Dialog/Dialog';
import { EmptyState, FailureState } from '../components/EmptyState/EmptyState';
import { Panel } from '../components/Panel/Panel';
import { DeletePipeline } from '../components/Pipelines/DeletePipeline';
import { ImportPipeline } from '../components/Pipelines/ImportPipeline';
import { PipelineMenu } from '../components/Pipelines/PipelineMenu';
import { RunningJob } from '../components/Pipelines/RunningJob';
import { TemplatePicker } from '../components/Templates/TemplatePicker';
import { usePageTitle } from '../hooks/usePageTitle';
import { useQueryParam } from '../hooks/useQueryParam';
import { useRole } from '../hooks/useSession';
import { useSingleFlight } from '../hooks/useSingleFlight';
import { useTimes } from '../hooks/useTimes';
import { maySubmit } from '../model/access';
import { emptyDocument, freeName } from '../model/pipeline/document';
import { makeId } from '../store/editor';
import { t } from '../texts/t';
import classes from './pages.module.css';

const KEY = ['pipelines'];
const READ_MS = 15_000;

export function PipelinesPage() {
  usePageTitle(t('Pipelines'));
  const mayEdit = maySubmit(useRole());
  const [shelf, setShelf] = useQueryParam('shelf');
  const isArchive = shelf === 'archived';
  const { data, error, refetch } = useQuery({
    queryKey: [...KEY, isArchive],
    queryFn: isArchive ? fetchArchived : fetchPipelines,
    refetchInterval: READ_MS,
  });
  const taken = (data ?? []).map(({ name }) => name);
  return (
    <>
      <div className={classes.titleRow}>
        <h1 className={classes.pageTitle}>{t('Pipelines')}</h1>
        <Group gap="sm" data-tour="new">
          <SegmentedControl
            size="xs"
            aria-label={t('Show')}
            value={isArchive ? 'archived' : 'active'}
            onChange={(chosen) => setShelf(chosen === 'archived' ? 'archived' : null)}
            data={[
              { value: 'active', label: t('Active') },
              { value: 'archived', label: t('Archived') },
            ]}
          />
          <Button component={Link} to="/connections" variant="default" leftSection={<IconPlug size={16} aria-hidden />}>
            {t('Connections')}
          </Button>
          {mayEdit && <ImportPipeline />}
          {mayEdit && <FromTemplate taken={taken} />}
          {mayEdit && <NewPipeline taken={taken} />}
        </Group>
      </div>
      {data === undefined && error === null && <Skeleton height={200} radius={10} />}
      {data === undefined && error !== null && (
        <FailureState
          title={t('The pipelines cannot be listed')}
          message={error.message}
          onRetry={() => void refetch()}
        />
      )}
      {data !== undefined && (
        <Panel flush label={t('Pipelines')}>
          {data.length === 0 ? (
            <EmptyState icon={IconSchema} title={isArchive ? t('Nothing is archived') : t('No pipeline yet')}>
              {isArchive
                ? t('Pipelines that are archived can be brought back from here, or deleted.')
                : t('A pipeline is drawn: sources, filters, windows and sinks, connected on a canvas.')}
            </EmptyState>
          ) : (
            <Rows pipelines={data} mayEdit={mayEdit} taken={taken} />
          )}
        </Panel>
      )}
    </>
  );
}

/** The dialog has a place in the address, so that other pages lead to it. */
function FromTemplate({ taken }: { readonly taken: readonly string[] }) {
  const [template, setTemplate] = useQueryParam('template');
  return (
    <>
      <Button variant="default" leftSection={<IconTemplate size={16} aria-hidden />} onClick={() => setTemplate('')}>
        {t('New from template')}
      </Button>
      {template !== null && <TemplatePicker taken={taken} onClose={() => setTemplate(null)} />}
    </>
  );
}

function NewPipeline({ taken }: { readonly taken: readonly string[] }) {
  const navigate = useNavigate();
  // a request repeated after a lost answer makes one pipeline
  const [key] = useState(makeId);
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => createPipeline(emptyDocument(freeName(t('New pipeline'), new Set(taken))), key),
    onSuccess: ({ id }) => navigate(`/pipelines/${id}/edit`),
  });
  const create = useSingleFlight(mutate);
  return (
    <Group gap="sm">
      {error !== null && (
        <Text role="alert" size="sm" c="var(--tm-failed)">
          {error.message}
        </Text>
      )}
      <Button leftSection={<IconPlus size={16} aria-hidden />} loading={isPending} onClick={() => create()}>
        {t('New pipeline')}
      </Button>
    </Group>
  );
}

interface RowsProps {
  readonly pipelines: readonly PipelineListed[];
  readonly mayEdit: boolean;
  readonly taken: readonly string[];
}

function Rows({ pipelines, mayEdit, taken }: RowsProps) {
  const times = useTimes();
  const [leaving, setLeaving] = useState<PipelineListed | null>(null);
  const [doomed, setDoomed] = useState<PipelineListed | null>(null);
  return (
    <div className="tm-table-scroll">
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Pipelines')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Name')}</th>
            <th scope="col">{t('Last version')}</th>
            <th scope="col">{t('Job')}</th>
            <th scope="col">{t('Your draft')}</th>
            <th scope="col">{t('Owner')}</th>
            <th scope="col">{t('Changed')}</th>
            <th scope="col">
              <span className="tm-visually-hidden">{t('Actions')}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {pipelines.map((pipeline) => (
            <tr key={pipeline.id}>
              <td className="tm-grow">
                <Link to={`/pipelines/${pipeline.id}/edit`} title={pipeline.name}>
                  {pipeline.name}
                </Link>
              </td>
              <td title={pipeline.head.message}>{pipeline.head.number}</td>
              <td>
                <RunningJob deployment={pipeline.deployment} />
              </td>
              <td>
                {pipeline.draft === null
                  ? '–'
                  : t('saved {updatedAt}', { updatedAt: times.dateTime(pipeline.draft.updated_at) })}
              </td>
              <td>{pipeline.owner ?? '–'}</td>
              <td>{times.dateTime(pipeline.updated_at)}</td>
              <td>
                <PipelineMenu
                  pipeline={pipeline}
                  mayEdit={mayEdit}
                  taken={taken}
                  onArchive={() => setLeaving(pipeline)}
                  onDelete={() => setDoomed(pipeline)}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {doomed !== null && <DeletePipeline pipeline={doomed} onClose={() => setDoomed(null)} />}
      {leaving !== null && <ArchiveModal pipeline={leaving} onClose={() => setLeaving(null)} />}
    </div>
  );
}

function ArchiveModal({ pipeline, onClose }: { readonly pipeline: PipelineListed; readonly onClose: () => void }) {
  const client = useQueryClient();
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => archivePipeline(pipeline.id),
    onSuccess: () => {
      onClose();
      void client.invalidateQueries({ queryKey: KEY });
    },
  });
  const archive = useSingleFlight(mutate);
  return (
    <Dialog onClose={onClose} title={t('Archive this pipeline?')} centered>
      <Text size="sm" className="tm-break">
        {t('{name} leaves this list. Its versions stay, and its jobs go on.', { name: pipeline.name })}
      </Text>
      {error !== null && (
        <Text role="alert" size="sm" c="var(--tm-failed)" mt="sm">
          {error.message}
        </Text>
      )}
      <Group justify="flex-end" mt="lg">
        <Button variant="default" onClick={onClose} data-autofocus>
          {t('Keep')}
        </Button>
        <Button loading={isPending} onClick={() => archive()}>
          {t('Archive')}
        </Button>
      </Group>
    </Dialog>
  );
}
