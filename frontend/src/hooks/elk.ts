/** ELK in a web worker of its own file (a strict content security policy allows no blob workers). Imported lazily. */

import type { ElkNode } from 'elkjs/lib/elk-api';
import ELK from 'elkjs/lib/elk-api';
import workerUrl from 'elkjs/lib/elk-worker.min.js?url';

import type { LayoutInput } from '../model/graph';

let elk: InstanceType<typeof ELK> | undefined;

export function runElk(input: LayoutInput): Promise<ElkNode> {
  elk ??= new ELK({ workerUrl });
  return elk.layout(input);
}
