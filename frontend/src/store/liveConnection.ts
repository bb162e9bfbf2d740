/**
 * The page's only live socket: topics, their documents, and their freshness; and whoever else converses over it.
 *
 * Framework-free; hooks subscribe to it. model/liveTopic interprets messages; when data is stale is decided in
 * model/staleness. The socket reconnects by itself (partysocket); a socket that is open but silent is reopened here.
 */

import type { ClientMessage, Freshness, ServerMessage, Topic } from '../gen/contract';
import { EMPTY_TOPIC, type TopicState, disconnected, offered, receive } from '../model/liveTopic';
import { type Liveness, STALE_AFTER_MS, type SocketStatus, oldest } from '../model/staleness';

/** The used part of WebSocket; tests provide their own. */
export interface LiveSocket {
  send(data: string): void;
  close(): void;
  reconnect(): void;
  onopen: (() => void) | null;
  onclose: (() => void) | null;
  onmessage: ((data: string) => void) | null;
}

interface Entry {
  state: TopicState;
  readonly listeners: Set<() => void>;
  /** The server's last report on the age of its document, and its time. */
  said: { readonly freshness: Freshness; readonly at: number } | null;
}

/** Speaks with the server about something that is no topic; see followedLog. */
export interface Conversation {
  /** The socket has been opened, perhaps again: the server knows of nothing. */
  onOpen(): void;
  onMessage(message: ServerMessage): void;
}

export class LiveConnection {
  #socket: LiveSocket | null = null;
  readonly #topics = new Map<Topic, Entry>();
  readonly #conversations = new Set<Conversation>();
  readonly #livenessListeners = new Set<() => void>();
  #liveness: Liveness;
  #reopenedAt: number;
  #clockOffset = 0;
  readonly #openSocket: () => LiveSocket;
  readonly #now: () => number;
  /** Called when the socket closes: the session may have ended. */
  onDisconnect: (() => void) | null = null;

  constructor(openSocket: () => LiveSocket, now: () => number = Date.now) {
    this.#openSocket = openSocket;
    this.#now = now;
    this.#reopenedAt = now();
    this.#liveness = { status: 'connecting', lastDataAt: null, lastFrameAt: null, startedAt: now(), staleData: null };
  }

  start(): void {
    if (this.#socket !== null) return;
    this.#reopenedAt = this.#now();
    this.#setLiveness({ status: 'connecting', startedAt: this.#now(), lastFrameAt: null });
    const socket = this.#openSocket();
    this.#socket = socket;
    socket.onopen = () => {
      // the server ticks from now on: silence is counted from here
      this.#setLiveness({ status: 'open', lastFrameAt: this.#now() });
      for (const topic of this.#topics.keys()) this.send({ type: 'subscribe', topic });
      for (const each of [...this.#conversations]) each.onOpen();
    };
    socket.onclose = () => {
      this.#lost('closed');
      this.onDisconnect?.();
    };
    socket.onmessage = (data) => this.#handle(data);
  }

  stop(): void {
    const socket = this.#socket;
    this.#socket = null;
    if (socket === null) return;
    socket.onopen = socket.onclose = socket.onmessage = null;
    socket.close();
    this.#lost('closed');
  }

  /** To be called about once a second: a socket that is open but silent for long is reopened. */
  checkSilence(): void {
    const { status, lastFrameAt } = this.#liveness;
    const now = this.#now();
    const quietSince = Math.max(lastFrameAt ?? 0, this.#reopenedAt);
    if (status === 'open' && now - quietSince > 2 * STALE_AFTER_MS) {
      this.#reopenedAt = now;
      this.#lost('connecting');
      this.#socket?.reconnect();
    }
  }

  get liveness(): Liveness {
    return this.#liveness;
  }

  /** Offset of the server's clock from the local one, in ms. */
  get clockOffset(): number {
    return this.#clockOffset;
  }

  topic(topic: Topic): TopicState {
    return this.#topics.get(topic)?.state ?? EMPTY_TOPIC;
  }

  /** Returns the function that ends the subscription; the last subscriber to leave unsubscribes at the server. */
  subscribe(topic: Topic, listener: () => void): () => void {
    let entry = this.#topics.get(topic);
    if (entry === undefined) {
      entry = { state: EMPTY_TOPIC, listeners: new Set(), said: null };
      this.#topics.set(topic, entry);
      this.send({ type: 'subscribe', topic });
    }
    const { listeners } = entry;
    listeners.add(listener);
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0 || this.#topics.get(topic)?.listeners !== listeners) return;
      this.#topics.delete(topic);
      this.#judge();
      this.send({ type: 'unsubscribe', topic });
    };
  }

  /** Returns the function that ends it. */
  converse(conversation: Conversation): () => void {
    this.#conversations.add(conversation);
    return () => this.#conversations.delete(conversation);
  }

  subscribeLiveness(listener: () => void): () => void {
    this.#livenessListeners.add(listener);
    return () => this.#livenessListeners.delete(listener);
  }

  /** A document that came over REST; used while the socket has none. */
  offer(topic: Topic, data: unknown): void {
    const entry = this.#topics.get(topic);
    if (entry === undefined) return;
    const state = offered(entry.state, data);
    if (state === entry.state) return;
    this.#setLiveness({ lastDataAt: this.#now() });
    this.#hear({ [topic]: (data as { readonly freshness?: Freshness }).freshness });
    this.#update(entry, state);
  }

  #handle(data: string): void {
    let message: ServerMessage;
    try {
      message = JSON.parse(data) as ServerMessage;
    } catch {
      return;
    }
    const now = this.#now();
    this.#setLiveness({ status: 'open', lastFrameAt: now, lastDataAt: now });
    if (message.type === 'tick' || message.type === 'pong') {
      this.#clockOffset = message.now - now;
      if (message.type === 'tick') this.#hear(message.freshness);
      return;
    }
    if (!('topic' in message)) {
      for (const each of [...this.#conversations]) each.onMessage(message);
      return;
    }
    // what was refused may be no topic: then nobody has subscribed to it
    const topic = message.topic as Topic;
    const entry = this.#topics.get(topic);
    if (entry === undefined) return;
    if ('freshness' in message) this.#hear({ [topic]: message.freshness });
    const step = receive(entry.state, message);
    if (step.resubscribe) this.send({ type: 'subscribe', topic });
    this.#update(entry, step.state);
  }

  /** Records the server's reports on the age of its documents. */
  #hear(said: Partial<Record<Topic, Freshness | undefined>>): void {
    const at = this.#now();
    for (const [topic, freshness] of Object.entries(said)) {
      const entry = this.#topics.get(topic as Topic);
      if (entry !== undefined && freshness !== undefined) entry.said = { freshness, at };
    }
    this.#judge();
  }

  #judge(): void {
    const said = [...this.#topics.values()].map((entry) => entry.said).filter((each) => each !== null);
    const staleData = oldest(said);
    if (staleData !== null || this.#liveness.staleData !== null) this.#setLiveness({ staleData });
  }

  #lost(status: SocketStatus): void {
    this.#setLiveness({ status });
    for (const entry of this.#topics.values()) this.#update(entry, disconnected(entry.state));
  }

  #update(entry: Entry, state: TopicState): void {
    if (state === entry.state) return;
    entry.state = state;
    for (const listener of [...entry.listeners]) listener();
  }

  #setLiveness(change: Partial<Liveness>): void {
    this.#liveness = { ...this.#liveness, ...change };
    for (const listener of [...this.#livenessListeners]) listener();
  }

  /** Nothing is sent while the socket is down. */
  send(message: ClientMessage): void {
    // requests made while the socket is down are repeated when it opens
    if (this.#liveness.status === 'open') this.#socket?.send(JSON.stringify(message));
  }
}
