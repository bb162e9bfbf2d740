/** New from a template: what there is, with its story and a small picture. Each makes a pipeline of its own. */

import { Skeleton, Text, UnstyledButton } from '@mantine/core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useNavigate } from 'react-router';

import { type Template, createPipeline, fetchTemplates } from '../../api/pipelines';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { type PipelineDocument, freeName } from '../../model/pipeline/document';
import { BOX, thumbnail } from '../../model/pipeline/thumbnail';
import { makeId } from '../../store/editor';
import { t } from '../../texts/t';
import { FailureState } from '../EmptyState/EmptyState';
import { Dialog } from '../Dialog/Dialog';
import classes from './TemplatePicker.module.css';

const WIDTH = 188;
const HEIGHT = 58;

interface Props {
  readonly taken: readonly string[];
  readonly onClose: () => void;
}

export function TemplatePicker({ taken, onClose }: Props) {
  const navigate = useNavigate();
  const { data, error, refetch } = useQuery({ queryKey: ['templates'], queryFn: fetchTemplates, staleTime: Infinity });
  // a request repeated after a lost answer makes one pipeline
  const [key] = useState(makeId);
  const { mutate, error: refused } = useMutation({
    mutationFn: ({ id, document }: Template) =>
      createPipeline({ ...document, name: freeName(document.name, new Set(taken)) }, `${key}-${id}`),
    onSuccess: ({ id }) => navigate(`/pipelines/${id}/edit`),
  });
  const create = useSingleFlight(mutate);
  return (
    <Dialog onClose={onClose} size={920} title={t('New from a template')}>
      {refused !== null && (
        <Text role="alert" size="sm" c="var(--tm-failed)" mb="sm">
          {refused.message}
        </Text>
      )}
      {error !== null && (
        <FailureState
          title={t('The templates cannot be listed')}
          message={error.message}
          onRetry={() => void refetch()}
        />
      )}
      {data === undefined && error === null && <Skeleton height={420} radius={10} />}
      <ul className={classes.list}>
        {data?.map((template) => (
          <li key={template.id} className={classes.card}>
            <Picture document={template.document} />
            <UnstyledButton
              className={classes.name ?? ''}
              onClick={() => create(template)}
              aria-describedby={`template-${template.id}`}
            >
              {template.name}
            </UnstyledButton>
            <span id={`template-${template.id}`} className={classes.story}>
              {template.description.slice(0, -1).join(' ')}
            </span>
            <span className={classes.next}>{template.description.at(-1)}</span>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}

function Picture({ document }: { readonly document: PipelineDocument }) {
  const { boxes, lines } = thumbnail(document, WIDTH, HEIGHT);
  return (
    <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} height={HEIGHT} className={classes.picture} aria-hidden>
      {lines.map((path) => (
        <path key={path} d={path} />
      ))}
      {boxes.map(({ id, x, y }) => (
        <rect key={id} x={x} y={y} width={BOX.width} height={BOX.height} rx={2.5} data-kind={kindOf(document, id)} />
      ))}
    </svg>
  );
}

function kindOf(document: PipelineDocument, id: string): string {
  return document.nodes[id]?.type.split('.')[0] ?? '';
}
