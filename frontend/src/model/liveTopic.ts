/**
 * State of one topic of the live socket, as a pure machine: a message in, the new state out, and whether the client
 * must request a new snapshot. A change applies only to the version it was made from; any gap requests a snapshot.
 */

import type { ServerMessage } from '../gen/contract';
import { applyMergePatch } from './mergePatch';

export interface TopicState {
  /** The last complete document; kept until a new snapshot arrives, so that the page does not flicker. */
  readonly data: unknown;
  readonly version: number | null;
  /** A snapshot has been requested; changes until then are ignored. */
  readonly awaiting: boolean;
  readonly gone: boolean;
  readonly error: string | null;
}

export interface Step {
  readonly state: TopicState;
  readonly resubscribe: boolean;
}

export const EMPTY_TOPIC: TopicState = { data: undefined, version: null, awaiting: true, gone: false, error: null };

type TopicMessage = Extract<ServerMessage, { topic: unknown }>;

export function receive(state: TopicState, message: TopicMessage): Step {
  switch (message.type) {
    case 'snapshot':
      return keep({ data: message.data, version: message.version, awaiting: false, gone: false, error: null });
    case 'change':
      // changes that were in transit when the snapshot was requested
      if (state.awaiting || state.version === null) return keep(state);
      if (message.version <= state.version) return keep(state);
      if (message.from !== state.version) return { state: { ...state, awaiting: true }, resubscribe: true };
      return keep({ ...state, data: applyMergePatch(state.data, message.patch), version: message.version });
    case 'gone':
      return keep({ ...state, gone: true, awaiting: false });
    case 'error':
      return keep({ ...state, error: message.message, awaiting: false });
  }
}

/** The socket was lost: the document stays, but only a snapshot continues it. */
export function disconnected(state: TopicState): TopicState {
  return { ...state, awaiting: true };
}

/** A document read over REST: shown while the socket is silent; the next snapshot replaces it. */
export function offered(state: TopicState, data: unknown): TopicState {
  return state.awaiting || state.data === undefined ? { ...state, data, version: null, error: null } : state;
}

function keep(state: TopicState): Step {
  return { state, resubscribe: false };
}
