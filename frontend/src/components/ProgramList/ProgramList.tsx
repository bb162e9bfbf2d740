/** Uploaded programs: choose one, or delete it after a confirmation. */

import { ActionIcon, Button, Group, Text } from '@mantine/core';
import { IconBrandPython, IconPackage, IconTrash } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';

import { deleteProgram } from '../../api/programs';
import type { JarFile } from '../../gen/contract';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { useTimes } from '../../hooks/useTimes';
import { formatBytes } from '../../model/format';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import { EmptyState } from '../EmptyState/EmptyState';
import { Dialog } from '../Dialog/Dialog';
import classes from './ProgramList.module.css';

interface Props {
  readonly programs: readonly JarFile[];
  readonly selected: string | null;
  readonly mayDelete: boolean;
  readonly onSelect: (id: string) => void;
  readonly onDeleted: (id: string) => void;
}

export function ProgramList({ programs, selected, mayDelete, onSelect, onDeleted }: Props) {
  const times = useTimes();
  const [doomed, setDoomed] = useState<JarFile | null>(null);
  if (programs.length === 0) {
    return (
      <EmptyState compact icon={IconPackage} title={t('No programs yet')}>
        {t('Upload one above to run it.')}
      </EmptyState>
    );
  }
  return (
    <>
      <ul className={classes.list}>
        {programs
          .toSorted((a, b) => b.uploaded - a.uploaded)
          .map((program) => (
            <li key={program.id} className={classes.item} data-selected={program.id === selected || undefined}>
              <button
                type="button"
                className={classes.choose}
                aria-pressed={program.id === selected}
                onClick={() => onSelect(program.id)}
              >
                {program.name.endsWith('.py') ? (
                  <IconBrandPython size={20} stroke={1.6} aria-hidden />
                ) : (
                  <IconPackage size={20} stroke={1.6} aria-hidden />
                )}
                <span className={classes.text}>
                  <span className={classes.name} title={program.name}>
                    {program.name}
                  </span>
                  <span className={classes.when}>
                    {times.dateTime(program.uploaded)} · {formatBytes(program.size)}
                    {program.owner !== null && ` · ${program.owner}`}
                  </span>
                </span>
              </button>
              <ActionIcon
                variant="subtle"
                color="gray"
                aria-label={t('Delete {name}', { name: program.name })}
                disabled={!mayDelete}
                onClick={() => setDoomed(program)}
              >
                <IconTrash size={16} stroke={1.7} />
              </ActionIcon>
            </li>
          ))}
      </ul>
      {doomed !== null && <DeleteModal program={doomed} onClose={() => setDoomed(null)} onDeleted={onDeleted} />}
    </>
  );
}

interface DeleteModalProps {
  readonly program: JarFile;
  readonly onClose: () => void;
  readonly onDeleted: (id: string) => void;
}

function DeleteModal({ program, onClose, onDeleted }: DeleteModalProps) {
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => deleteProgram(program.id),
    onSuccess: () => {
      onClose();
      onDeleted(program.id);
    },
  });
  const remove = useSingleFlight(mutate);
  return (
    <Dialog onClose={onClose} title={t('Delete this program?')} centered>
      <Text size="sm" className="tm-break">
        {rich('{name} is removed from the server. Jobs that were started from it continue.', {
          name: <strong>{program.name}</strong>,
        })}
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
        <Button color="red.8" loading={isPending} onClick={() => remove()}>
          {t('Delete')}
        </Button>
      </Group>
    </Dialog>
  );
}
