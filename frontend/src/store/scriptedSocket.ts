/** A socket for tests, which play the server. */

import type { LiveSocket } from './liveConnection';

export class ScriptedSocket implements LiveSocket {
  sent: unknown[] = [];
  reconnects = 0;
  closed = false;
  onopen: (() => void) | null = null;
  onclose: (() => void) | null = null;
  onmessage: ((data: string) => void) | null = null;
  send(data: string): void {
    this.sent.push(JSON.parse(data));
  }
  close(): void {
    this.closed = true;
  }
  reconnect(): void {
    this.reconnects += 1;
  }
  says(message: unknown): void {
    this.onmessage?.(JSON.stringify(message));
  }
}
