/** Options with their values, and a filter that is kept in the URL. */

import { TextInput } from '@mantine/core';
import { IconAdjustments, IconSearch } from '@tabler/icons-react';

import { useQueryParam } from '../../hooks/useQueryParam';
import { t } from '../../texts/t';
import { EmptyState } from '../EmptyState/EmptyState';
import { Panel } from '../Panel/Panel';

interface Props {
  readonly title: string;
  readonly caption: string;
  readonly options: readonly (readonly [string, string])[];
  /** Says that there are none. */
  readonly none: string;
}

export function OptionTable({ title, caption, options, none }: Props) {
  const [param, setFilter] = useQueryParam('option');
  const filter = param ?? '';
  const shown = options
    .filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(filter.toLowerCase()))
    .toSorted(([a], [b]) => a.localeCompare(b));
  return (
    <Panel
      title={title}
      flush
      actions={
        options.length > 0 && (
          <TextInput
            size="xs"
            w={240}
            placeholder={t('Filter options')}
            aria-label={t('Filter options')}
            leftSection={<IconSearch size={15} />}
            value={filter}
            onChange={(event) => setFilter(event.currentTarget.value === '' ? null : event.currentTarget.value)}
          />
        )
      }
    >
      {shown.length === 0 ? (
        <EmptyState
          compact
          icon={IconAdjustments}
          title={options.length === 0 ? none : t('No option matches the filter')}
        />
      ) : (
        <div className="tm-table-scroll" tabIndex={0}>
          <table className="tm-table">
            <caption className="tm-visually-hidden">{caption}</caption>
            <thead>
              <tr>
                <th scope="col">{t('Option')}</th>
                <th scope="col">{t('Value')}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map(([key, value]) => (
                <tr key={key}>
                  <td className="tm-mono">{key}</td>
                  <td className="tm-mono tm-grow" title={value}>
                    {value}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Panel>
  );
}
