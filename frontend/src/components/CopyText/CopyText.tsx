/** An id or a command with a button that copies it. */

import { ActionIcon, CopyButton, Tooltip } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';

import { t } from '../../texts/t';
import classes from './CopyText.module.css';

interface Props {
  readonly text: string;
  readonly label: string;
  readonly block?: boolean;
}

export function CopyText({ text, label, block = false }: Props) {
  return (
    <span className={block ? classes.block : classes.inline}>
      <span className={`tm-mono ${classes.text}`}>{text}</span>
      <CopyButton value={text} timeout={1500}>
        {({ copied, copy }) => (
          <Tooltip label={copied ? t('Copied') : t('Copy {label}', { label })}>
            <ActionIcon
              variant="subtle"
              color="gray"
              size="sm"
              onClick={copy}
              aria-label={t('Copy {label}', { label })}
            >
              {copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
            </ActionIcon>
          </Tooltip>
        )}
      </CopyButton>
    </span>
  );
}
