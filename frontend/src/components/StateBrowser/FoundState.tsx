/** The state of one key: its values by namespace, and its timers. */

import type { StatePlace } from '../../api/state';
import type { KeyedState, StateLookup, StateOperator, StateTimer, StateValue } from '../../gen/contract';
import { type Times, useTimes } from '../../hooks/useTimes';
import { formatBytes, formatCount } from '../../model/format';
import { itemsOf, lineOf, nameOf, nameOfKey, textOf, timerTime, windowOf } from '../../model/stateBrowser';
import { t } from '../../texts/t';
import { KeyValues } from '../KeyValues/KeyValues';
import { Panel } from '../Panel/Panel';
import { ExportCsv } from './ExportCsv';
import classes from './StateBrowser.module.css';

interface Props {
  readonly jobId: string;
  /** Where it was looked for. */
  readonly place: StatePlace;
  readonly found: StateLookup;
  readonly operator: StateOperator;
  readonly state: KeyedState;
}

export function FoundState({ jobId, place, found, operator, state }: Props) {
  const times = useTimes();
  const { snapshot, values, timers } = found;
  return (
    <Panel title={t('{name} of {key}', { name: state.name, key: nameOfKey(found.key) })}>
      <div className={classes.found}>
        <p className={classes.asOf} role="status">
          {values.length === 0 && `${t('The key has no such state.')} `}
          {t('As of {timestamp}, {snapshot}', {
            timestamp: times.dateTime(snapshot.timestamp),
            snapshot: nameOf(snapshot),
          })}
        </p>
        {values.map((value, index) => (
          <div key={index}>
            {value.namespace !== null && (
              <h3 className={classes.heading}>{namespaceText(operator.window_type, value.namespace, times)}</h3>
            )}
            <Value state={state} value={value} times={times} />
          </div>
        ))}
        {values.length < found.num_values && <More shown={values.length} total={found.num_values} of="windows" />}
        {timers.length > 0 && <Timers timers={timers} windowType={operator.window_type} times={times} />}
        {timers.length < found.num_timers && <More shown={timers.length} total={found.num_timers} of="timers" />}
        <ExportCsv key={found.encoded_key} jobId={jobId} place={place} wanted={{ encoded_key: found.encoded_key }} />
        <KeyValues
          rows={[
            [
              t('Key Group'),
              t('{keyGroup} of {maxParallelism}', {
                keyGroup: found.key_group,
                maxParallelism: operator.max_parallelism,
              }),
            ],
            [t('Subtask'), String(found.subtask)],
            [t('Read'), formatBytes(found.read_bytes)],
          ]}
        />
      </div>
    </Panel>
  );
}

function namespaceText(windowType: string, namespace: unknown, times: Times): string {
  const window = windowOf(windowType, namespace);
  return window === null ? lineOf(namespace) : `${times.watermark(window[0])} – ${times.watermark(window[1])}`;
}

interface ValueProps {
  readonly state: KeyedState;
  readonly value: StateValue;
  readonly times: Times;
}

function Value({ state, value, times }: ValueProps) {
  if (!value.is_decoded) return <p className={classes.asOf}>{t('Pickled, not decoded')}</p>;
  const items = itemsOf(state.kind, value);
  return (
    <>
      {items === null ? (
        <pre className={`tm-mono ${classes.value ?? ''}`}>{textOf(value.value)}</pre>
      ) : (
        <div className="tm-table-scroll" tabIndex={0}>
          <table className="tm-table">
            <caption className="tm-visually-hidden">{state.kind === 'map' ? t('Entries') : t('Items')}</caption>
            <thead>
              <tr>
                <th scope="col">{state.kind === 'map' ? t('Key') : t('Index')}</th>
                <th scope="col">{t('Value')}</th>
                {state.has_ttl && <th scope="col">{t('Last Touched')}</th>}
              </tr>
            </thead>
            <tbody>
              {items.map((item, index) => (
                <tr key={index}>
                  <td className="tm-mono">{item.name}</td>
                  <td>
                    <pre className={`tm-mono ${classes.value ?? ''}`}>{textOf(item.value)}</pre>
                  </td>
                  {state.has_ttl && <td>{item.touched === null ? '' : times.dateTime(item.touched)}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {typeof value.touched === 'number' && (
        <p className={classes.asOf}>{t('Last touched {touched}', { touched: times.dateTime(value.touched) })}</p>
      )}
      {items !== null && value.num_items !== null && items.length < value.num_items && (
        <More shown={items.length} total={value.num_items} of={state.kind === 'map' ? t('entries') : t('items')} />
      )}
      {value.is_cut && <p className={classes.asOf}>{t('Too large to be shown whole: parts are left out.')}</p>}
    </>
  );
}

function More({ shown, total, of }: { readonly shown: number; readonly total: number; readonly of: string }) {
  return (
    <p className={classes.asOf}>
      {t('{shown} of {total} {of} are shown.', { shown: formatCount(shown), total: formatCount(total), of })}
    </p>
  );
}

interface TimersProps {
  readonly timers: readonly StateTimer[];
  readonly windowType: string;
  readonly times: Times;
}

function Timers({ timers, windowType, times }: TimersProps) {
  return (
    <div className="tm-table-scroll" tabIndex={0}>
      <h3 className={classes.heading}>{t('Timers of the key')}</h3>
      <table className="tm-table">
        <caption className="tm-visually-hidden">{t('Timers of the key')}</caption>
        <thead>
          <tr>
            <th scope="col">{t('Time')}</th>
            <th scope="col">{t('Kind')}</th>
            <th scope="col">{t('Service')}</th>
            <th scope="col">{t('Namespace')}</th>
          </tr>
        </thead>
        <tbody>
          {timers.map((timer, index) => (
            <tr key={index}>
              <td title={String(timer.timestamp)}>{times.watermark(timerTime(timer))}</td>
              <td>{timer.is_event_time ? t('event time') : t('processing time')}</td>
              <td>{timer.service}</td>
              <td>{timer.namespace === null ? '' : namespaceText(windowType, timer.namespace, times)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
