/** The state of one key: its values by namespace, and its timers. */

import type { StatePlace } from '../../api/state';
import type { KeyedState, StateLookup, StateOperator, StateTimer, StateValue } from '../../gen/contract';
import { type Times, useTimes } from '../../hooks/useTimes';
import { formatBytes, formatCount } from '../../model/format';
import { itemsOf, lineOf, nameOf, nameOfKey, textOf, timerTime, windowOf } from '../../model/stateBrowser';
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
    <Panel title={`${state.name} of ${nameOfKey(found.key)}`}>
      <div className={classes.found}>
        <p className={classes.asOf} role="status">
          {values.length === 0 ? 'The key has no such state. ' : ''}
          As of {times.dateTime(snapshot.timestamp)}, {nameOf(snapshot)}
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
            ['Key Group', `${found.key_group} of ${operator.max_parallelism}`],
            ['Subtask', String(found.subtask)],
            ['Read', formatBytes(found.read_bytes)],
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
  if (!value.is_decoded) return <p className={classes.asOf}>Pickled, not decoded</p>;
  const items = itemsOf(state.kind, value);
  return (
    <>
      {items === null ? (
        <pre className={`tm-mono ${classes.value ?? ''}`}>{textOf(value.value)}</pre>
      ) : (
        <div className="tm-table-scroll">
          <table className="tm-table">
            <caption className="tm-visually-hidden">{state.kind === 'map' ? 'Entries' : 'Items'}</caption>
            <thead>
              <tr>
                <th scope="col">{state.kind === 'map' ? 'Key' : 'Index'}</th>
                <th scope="col">Value</th>
                {state.has_ttl && <th scope="col">Last Touched</th>}
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
        <p className={classes.asOf}>Last touched {times.dateTime(value.touched)}</p>
      )}
      {items !== null && value.num_items !== null && items.length < value.num_items && (
        <More shown={items.length} total={value.num_items} of={state.kind === 'map' ? 'entries' : 'items'} />
      )}
      {value.is_cut && <p className={classes.asOf}>Too large to be shown whole: parts are left out.</p>}
    </>
  );
}

function More({ shown, total, of }: { readonly shown: number; readonly total: number; readonly of: string }) {
  return (
    <p className={classes.asOf}>
      {formatCount(shown)} of {formatCount(total)} {of} are shown.
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
    <div className="tm-table-scroll">
      <h3 className={classes.heading}>Timers of the key</h3>
      <table className="tm-table">
        <caption className="tm-visually-hidden">Timers of the key</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Kind</th>
            <th scope="col">Service</th>
            <th scope="col">Namespace</th>
          </tr>
        </thead>
        <tbody>
          {timers.map((timer, index) => (
            <tr key={index}>
              <td title={String(timer.timestamp)}>{times.watermark(timerTime(timer))}</td>
              <td>{timer.is_event_time ? 'event time' : 'processing time'}</td>
              <td>{timer.service}</td>
              <td>{timer.namespace === null ? '' : namespaceText(windowType, timer.namespace, times)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
