/** Copies a stack trace. */

import { Button, CopyButton } from '@mantine/core';
import { IconCheck, IconCopy } from '@tabler/icons-react';

import { t } from '../../texts/t';

export function CopyTrace({ text }: { readonly text: string }) {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        <Button
          variant="default"
          size="xs"
          leftSection={copied ? <IconCheck size={14} /> : <IconCopy size={14} />}
          onClick={copy}
        >
          {copied ? t('Copied') : t('Copy stack trace')}
        </Button>
      )}
    </CopyButton>
  );
}
