/** Takes a program by drag and drop or by the file dialogs, and shows how far the upload is. */

import { Progress } from '@mantine/core';
import { IconCloudUpload } from '@tabler/icons-react';
import { type DragEvent, useId, useState } from 'react';

import { formatBytes } from '../../model/format';
import type { Picked } from '../../model/programFiles';
import { ACCEPTED_FILES } from '../../model/programForm';
import { rich } from '../../texts/rich';
import { t } from '../../texts/t';
import classes from './Dropzone.module.css';
import { chosenFiles, droppedFiles } from './pickedFiles';

interface Props {
  readonly onFiles: (files: Picked<File>[]) => void;
  /** A directory that was dropped cannot be read. */
  readonly onUnreadable: (reason: string) => void;
  readonly disabled: boolean;
  /** The file on its way and its share (0..1) that has been sent. */
  readonly sending: { readonly file: File; readonly share: number } | null;
}

export function Dropzone({ onFiles, onUnreadable, disabled, sending }: Props) {
  const [isOver, setOver] = useState(false);
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    if (disabled || sending !== null) return;
    droppedFiles(event.dataTransfer).then(
      (files) => files.length > 0 && onFiles(files),
      (error: unknown) => onUnreadable(error instanceof Error ? error.message : String(error)),
    );
  };
  return (
    <div
      className={classes.zone}
      data-over={isOver || undefined}
      data-disabled={disabled || undefined}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      {sending === null ? (
        <>
          <IconCloudUpload size={28} stroke={1.5} className={classes.icon} aria-hidden />
          <div>
            {rich('{program}, or {directory}, or drop it here', {
              program: <Picker label={t('Choose a program')} disabled={disabled} onFiles={onFiles} />,
              directory: <Picker label={t('choose a directory')} isDirectory disabled={disabled} onFiles={onFiles} />,
            })}
            <p className={classes.hint}>{t('One or several .py files, a directory of modules, or a .zip or .whl')}</p>
          </div>
        </>
      ) : (
        <div className={classes.sending} role="status">
          <span className={classes.file}>
            {sending.file.name} <span className="tm-dim">{formatBytes(sending.file.size)}</span>
          </span>
          <Progress value={100 * sending.share} aria-label={t('Uploading {name}', { name: sending.file.name })} />
          <span className="tm-dim">{sending.share < 1 ? `${Math.round(100 * sending.share)}%` : t('Storing')}</span>
        </div>
      )}
    </div>
  );
}

interface PickerProps {
  readonly label: string;
  readonly isDirectory?: boolean;
  readonly disabled: boolean;
  readonly onFiles: Props['onFiles'];
}

/** A file dialog behind a label that looks like a link. */
function Picker({ label, isDirectory = false, disabled, onFiles }: PickerProps) {
  const id = useId();
  return (
    <>
      <input
        id={id}
        type="file"
        multiple
        {...(isDirectory ? { webkitdirectory: '' } : { accept: ACCEPTED_FILES })}
        disabled={disabled}
        className={`tm-visually-hidden ${classes.input ?? ''}`}
        onChange={(event) => {
          const files = chosenFiles(event.currentTarget);
          // the same files may be chosen again
          event.currentTarget.value = '';
          if (files.length > 0) onFiles(files);
        }}
      />
      <label htmlFor={id} className={classes.label}>
        {label}
      </label>
    </>
  );
}
