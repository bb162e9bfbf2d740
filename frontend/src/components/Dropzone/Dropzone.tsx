/** Takes a program file by drag and drop or by the file dialog, and shows how far the upload is. */

import { Progress } from '@mantine/core';
import { IconCloudUpload } from '@tabler/icons-react';
import { type DragEvent, useId, useState } from 'react';

import { formatBytes } from '../../model/format';
import { ACCEPTED_FILES } from '../../model/programForm';
import classes from './Dropzone.module.css';

interface Props {
  readonly onFile: (file: File) => void;
  readonly disabled: boolean;
  /** The file on its way and its share (0..1) that has been sent. */
  readonly sending: { readonly file: File; readonly share: number } | null;
}

export function Dropzone({ onFile, disabled, sending }: Props) {
  const [isOver, setOver] = useState(false);
  const id = useId();
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    const file = event.dataTransfer.files[0];
    if (file !== undefined && !disabled && sending === null) onFile(file);
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
            <input
              id={id}
              type="file"
              accept={ACCEPTED_FILES}
              disabled={disabled}
              className={`tm-visually-hidden ${classes.input ?? ''}`}
              onChange={(event) => {
                const file = event.currentTarget.files?.[0];
                if (file !== undefined) onFile(file);
                // the same file may be chosen again
                event.currentTarget.value = '';
              }}
            />
            <label htmlFor={id} className={classes.label}>
              Choose a program
            </label>{' '}
            or drop it here
            <p className={classes.hint}>A .py file, or a .zip or .whl with an entry module</p>
          </div>
        </>
      ) : (
        <div className={classes.sending} role="status">
          <span className={classes.file}>
            {sending.file.name} <span className="tm-dim">{formatBytes(sending.file.size)}</span>
          </span>
          <Progress value={100 * sending.share} aria-label={`Uploading ${sending.file.name}`} />
          <span className="tm-dim">{sending.share < 1 ? `${Math.round(100 * sending.share)}%` : 'storing'}</span>
        </div>
      )}
    </div>
  );
}
