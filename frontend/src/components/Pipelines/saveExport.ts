/** What comes of an export: a file, and a notice of what was left out of it. */

import { notifications } from '@mantine/notifications';

import type { Export } from '../../gen/contract';
import { leftOutText } from '../../model/pipeline/leftOut';
import { t } from '../../texts/t';
import { saveFile } from './saveFile';

export function saveExport({ file_name, text, stripped }: Export): void {
  saveFile(file_name, text);
  if (stripped.length === 0) return;
  notifications.show({
    title: t('Exported without secrets'),
    message: leftOutText(stripped),
    autoClose: false,
    withCloseButton: true,
  });
}

export function exportFailed(error: Error): void {
  notifications.show({
    title: t('The pipeline cannot be exported'),
    message: error.message,
    color: 'red',
    autoClose: false,
    withCloseButton: true,
  });
}
