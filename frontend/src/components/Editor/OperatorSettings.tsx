/** Settings of a node's operator: parallelism, chaining, slot sharing, and the uid of its state. */

import { NumberInput, Select, Switch, TextInput } from '@mantine/core';

import { useEditor, useEditorStore } from '../../hooks/useEditor';
import type { PipelineNode } from '../../model/pipeline/document';
import * as operations from '../../model/pipeline/operations';
import { t } from '../../texts/t';
import { CopyText } from '../CopyText/CopyText';
import { toggleDisabled } from './actions';
import classes from './Inspector.module.css';

interface Props {
  readonly id: string;
  readonly node: PipelineNode;
  readonly isParallel: boolean;
  readonly hasOperator: boolean;
}

export function OperatorSettings({ id, node, isParallel, hasOperator }: Props) {
  const store = useEditorStore();
  const isReadOnly = useEditor((state) => state.isReadOnly);
  const change = (field: string, value: Partial<PipelineNode>) =>
    store
      .getState()
      .transact(
        t('Changed {name}', { name: node.name }),
        (before) => operations.changeNode(before, id, (old) => ({ ...old, ...value })),
        {
          mergeKey: `${id} ${field}`,
        },
      );
  return (
    <details className={classes.operator}>
      <summary>{t('Operator')}</summary>
      <div className={classes.fields}>
        <Switch
          label={t('Disabled')}
          description={t('It does not run, nor do nodes that only it feeds.')}
          size="sm"
          checked={node.disabled === true}
          disabled={isReadOnly}
          onChange={() => toggleDisabled(store, [id])}
        />
        {hasOperator ? (
          <>
            <NumberInput
              label={t('Parallelism')}
              size="sm"
              placeholder={isParallel ? t('that of the pipeline') : t('always 1')}
              value={node.parallelism ?? ''}
              min={1}
              hideControls
              disabled={isReadOnly || !isParallel}
              onChange={(value) => change('parallelism', { parallelism: typeof value === 'number' ? value : null })}
            />
            <Select
              label={t('Chaining')}
              size="sm"
              data={['always', 'head', 'never']}
              value={node.chaining ?? 'always'}
              allowDeselect={false}
              disabled={isReadOnly}
              onChange={(chaining) => change('chaining', { chaining: chaining ?? 'always' })}
            />
            <TextInput
              label={t('Slot sharing group')}
              size="sm"
              placeholder={t('default')}
              value={node.slot_group ?? ''}
              disabled={isReadOnly}
              onChange={({ currentTarget: { value } }) =>
                change('slot_group', { slot_group: value === '' ? null : value })
              }
            />
            <div className={classes.uid}>
              <span className="tm-dim">{t('State is kept under the uid')}</span>{' '}
              <CopyText text={node.uid} label={t('uid')} />
            </div>
          </>
        ) : (
          <p className="tm-dim">
            {t('The operators are those of its code, which gives them their parallelism and uids.')}
          </p>
        )}
      </div>
    </details>
  );
}
