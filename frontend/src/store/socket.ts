/** The browser's socket behind LiveConnection: reconnecting with growing pauses (0.5 s to 10 s). */

import { WebSocket as ReconnectingWebSocket } from 'partysocket';

import { ROOT } from '../api/root';
import { LiveConnection, type LiveSocket } from './liveConnection';

/** The version of the messages and documents that this page understands. */
const PROTOCOL = 'tidemark.live.3';

function openSocket(): LiveSocket {
  const url = new URL(`${ROOT}ws/live`, window.location.href);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  const socket = new ReconnectingWebSocket(url.href, PROTOCOL, {
    minReconnectionDelay: 500,
    maxReconnectionDelay: 10_000,
    reconnectionDelayGrowFactor: 1.6,
    connectionTimeout: 5_000,
    // LiveConnection subscribes again after each opening: nothing may wait in a queue
    maxEnqueuedMessages: 0,
  });
  const adapter: LiveSocket = {
    send: (data) => socket.send(data),
    close: () => socket.close(),
    reconnect: () => socket.reconnect(),
    onopen: null,
    onclose: null,
    onmessage: null,
  };
  socket.addEventListener('open', () => adapter.onopen?.());
  socket.addEventListener('close', () => adapter.onclose?.());
  socket.addEventListener('message', (event: MessageEvent<string>) => adapter.onmessage?.(event.data));
  return adapter;
}

export const connection = new LiveConnection(openSocket);
