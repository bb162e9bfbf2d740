/** The tags of a job, which operators change in place. */

import { Button, TagsInput } from '@mantine/core';
import { IconTag } from '@tabler/icons-react';
import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';

import { changeTags, fetchTags } from '../../api/tags';
import { useSingleFlight } from '../../hooks/useSingleFlight';
import { useRole } from '../../hooks/useSession';
import { mayOperate } from '../../model/access';
import { t } from '../../texts/t';
import classes from './JobTags.module.css';
import { TagList } from './TagList';

export function JobTags({ jobId }: { readonly jobId: string }) {
  const { data: tags } = useQuery({ queryKey: ['tags', jobId], queryFn: () => fetchTags(jobId) });
  const mayEdit = mayOperate(useRole());
  const [isEditing, setIsEditing] = useState(false);
  if (tags === undefined) return null;
  if (isEditing) return <Editor jobId={jobId} tags={tags} onClose={() => setIsEditing(false)} />;
  if (tags.length === 0 && !mayEdit) return null;
  return (
    <div className={classes.tags} role="group" aria-label={t('Tags')}>
      <TagList tags={tags} />
      {mayEdit && (
        <button type="button" className={classes.edit} onClick={() => setIsEditing(true)}>
          <IconTag size={13} aria-hidden /> {tags.length === 0 ? t('Add tags') : t('Edit tags')}
        </button>
      )}
    </div>
  );
}

interface EditorProps {
  readonly jobId: string;
  readonly tags: readonly string[];
  readonly onClose: () => void;
}

function Editor({ jobId, tags, onClose }: EditorProps) {
  // those that the editor began with: others may change them while it is open
  const [was] = useState(tags);
  const [edited, setEdited] = useState([...tags]);
  const client = useQueryClient();
  const { mutate, isPending, error } = useMutation({
    mutationFn: (wanted: readonly string[]) => changeTags(jobId, was, wanted),
    onSuccess: (saved) => {
      client.setQueryData(['tags', jobId], saved);
      void client.invalidateQueries({ queryKey: ['tags'], exact: true });
      onClose();
    },
  });
  const save = useSingleFlight(mutate);
  return (
    <div className={classes.editor}>
      <TagsInput
        size="xs"
        aria-label={t('Tags')}
        placeholder={t('Enter adds a tag')}
        value={edited}
        onChange={setEdited}
        acceptValueOnBlur
        error={error?.message}
        data-autofocus
        className={classes.input}
      />
      <Button size="xs" loading={isPending} onClick={() => save(edited)}>
        {t('Save')}
      </Button>
      <Button size="xs" variant="default" onClick={onClose}>
        {t('Cancel')}
      </Button>
    </div>
  );
}
