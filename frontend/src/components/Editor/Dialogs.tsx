/** The editor's dialogs: connect by keyboard, save with a message. */

import { Button, Group, TextInput } from '@mantine/core';
import { useMemo, useState } from 'react';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import { nameOf } from '../../model/pipeline/document';
import { documentOf } from '../../store/editor';
import { t } from '../../texts/t';
import { Dialog } from '../Dialog/Dialog';
import { type Target, connect, targetsFor } from './actions';
import classes from './Dialogs.module.css';

export function ConnectDialog({ id, onClose }: { readonly id: string; readonly onClose: () => void }) {
  const store = useEditorStore();
  const name = useEditor((state) => nameOf(documentOf(state), id));
  const targets = useMemo(() => targetsFor(store, id), [store, id]);
  const [text, setText] = useState('');
  const shown = targets.filter((target) => target.text.toLowerCase().includes(text.toLowerCase()));
  const choose = (target: Target) => {
    connect(store, target);
    onClose();
  };
  return (
    <Dialog onClose={onClose} title={t('Connect {name} to', { name })}>
      <TextInput
        data-autofocus
        placeholder={t('Search')}
        aria-label={t('Search nodes to connect to')}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          const [first] = shown;
          if (event.key !== 'Enter' || first?.refusal !== null) return;
          // the dialog gives the focus back at once, and this key would press what has it then
          event.preventDefault();
          choose(first);
        }}
      />
      <ul className={classes.targets} aria-label={t('Inputs')}>
        {shown.map((target) => (
          <li key={`${target.from.join(' ')} ${target.to.join(' ')}`}>
            <button
              type="button"
              className={classes.target}
              disabled={target.refusal !== null}
              onClick={() => choose(target)}
            >
              <span>{target.text}</span>
              {target.refusal !== null && <span className={classes.why}>{target.refusal}</span>}
            </button>
          </li>
        ))}
      </ul>
      {shown.length === 0 && <p className="tm-dim">{t('There is no input to connect to.')}</p>}
    </Dialog>
  );
}

interface SaveProps {
  readonly next: number;
  readonly isSaving: boolean;
  readonly error: string | null;
  readonly onSave: (message: string) => void;
  readonly onClose: () => void;
}

export function SaveDialog({ next, isSaving, error, onSave, onClose }: SaveProps) {
  const [message, setMessage] = useState('');
  return (
    <Dialog onClose={onClose} title={t('Save as version {next}', { next })}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSave(message);
        }}
      >
        <TextInput
          data-autofocus
          label={t('What has changed')}
          placeholder={t('optional')}
          value={message}
          error={error}
          errorProps={{ role: 'alert' }}
          onChange={(event) => setMessage(event.currentTarget.value)}
        />
        <p className={classes.about}>
          {t('A version never changes. Running jobs stay as they are until one is deployed.')}
        </p>
        <Group justify="flex-end" mt="md">
          <Button variant="default" onClick={onClose}>
            {t('Keep editing')}
          </Button>
          <Button type="submit" loading={isSaving}>
            {t('Save')}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}
