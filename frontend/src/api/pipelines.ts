/** Pipelines over REST: the list, versions, drafts, and what the server knows of a document. */

import type {
  DeploymentListed,
  DraftPlanAnswer,
  PreviewAnswer,
  ProgramLines,
  ReadSchemaAnswer,
  RenameAnswer,
  Report,
  TestResult,
  TestsAnswer,
} from '../gen/contract';
import type { Catalog, Facts, NodeState, Ports, Problem, Validation } from '../model/pipeline/catalog';
import type { PipelineDocument } from '../model/pipeline/document';
import { t } from '../texts/t';
import { ApiError } from './client';
import { ROOT, csrfToken } from './root';

const PIPELINES = `${ROOT}api/v1/pipelines`;
/** The most that a browser sends after its page has gone. */
const MAX_KEPT_ALIVE_BYTES = 60_000;

export interface VersionListed {
  readonly number: number;
  readonly semantic_hash: string;
  readonly message: string;
  readonly author: string | null;
  readonly created_at: number;
}

export interface Version extends VersionListed {
  readonly document: PipelineDocument;
}

export interface DraftListed {
  /** In quotes: its ETag. */
  readonly tag: string;
  /** Number of the version that it began with. */
  readonly base: number;
  readonly semantic_hash: string;
  readonly updated_at: number;
}

export interface Draft extends DraftListed {
  readonly document: PipelineDocument;
}

export interface PipelineListed {
  readonly id: string;
  readonly name: string;
  readonly owner: string | null;
  readonly tags: readonly string[];
  readonly created_at: number;
  readonly updated_at: number;
  readonly archived_at: number | null;
  readonly head: VersionListed;
  readonly draft: DraftListed | null;
  /** The newest one. */
  readonly deployment: DeploymentListed | null;
}

export interface OtherEditor {
  readonly user: string | null;
  readonly base: number;
  readonly updated_at: number;
}

export interface Pipeline extends PipelineListed {
  readonly editors: readonly OtherEditor[];
}

/** Somebody else was faster: `current` is what is there now; null: nothing. */
export class OutdatedError extends ApiError {
  /** `head_moved`: `current` is a version; `draft_moved`: it is a draft. */
  readonly code: string;
  readonly current: Draft | Version | null;

  constructor(message: string, code: string, current: Draft | Version | null) {
    super(412, message);
    this.code = code;
    this.current = current;
  }
}

/** The state of the running job is in the way. */
export class StateRefusedError extends ApiError {
  readonly report: Report;

  constructor(message: string, report: Report) {
    super(409, message);
    this.report = report;
  }
}

/** What runs is not what was to be replaced. */
export class OtherRunsError extends ApiError {
  constructor(message: string) {
    super(409, message);
  }
}

interface Sent {
  readonly method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
  readonly keepalive?: boolean;
}

interface Failure {
  readonly errors?: readonly { readonly code?: string; readonly message?: string }[];
  readonly current?: Draft | Version | null;
  readonly report?: Report;
}

/** A request to a route below pipelines. Throws ApiError, or one of the errors above. */
export async function send<T>(path: string, sent: Sent = {}): Promise<T> {
  const { method = 'GET', body, headers = {}, signal, keepalive = false } = sent;
  let response: Response;
  try {
    response = await fetch(PIPELINES + path, {
      method,
      credentials: 'same-origin',
      keepalive,
      headers: {
        Accept: 'application/json',
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(method === 'GET' ? {} : { 'X-CSRFToken': csrfToken() }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, t('The server cannot be reached.'));
  }
  const text = await response.text();
  if (response.ok) return (text === '' ? undefined : JSON.parse(text)) as T;
  const failure = failureOf(text);
  const said = (failure.errors ?? []).map(({ message }) => message ?? '').filter(Boolean);
  const message =
    said.length > 0 ? said.join('\n') : t('The server refused (status {status}).', { status: response.status });
  if (response.status === 412)
    throw new OutdatedError(message, failure.errors?.[0]?.code ?? '', failure.current ?? null);
  if (failure.report !== undefined) throw new StateRefusedError(message, failure.report);
  if (failure.errors?.some(({ code }) => code === 'other_runs') === true) throw new OtherRunsError(message);
  throw new ApiError(response.status, message);
}

function failureOf(text: string): Failure {
  try {
    return JSON.parse(text) as Failure;
  } catch {
    // not JSON: for example a proxy's page
    return {};
  }
}

// --- pipelines ------------------------------------------------------------------------------------------------------

export async function fetchPipelines(): Promise<readonly PipelineListed[]> {
  return (await send<{ pipelines: PipelineListed[] }>('')).pipelines;
}

export function fetchPipeline(id: string): Promise<Pipeline> {
  return send(`/${id}`);
}

/** `key` makes a repeated request create one pipeline only. */
export function createPipeline(document: PipelineDocument, key: string): Promise<Pipeline> {
  return send('', { method: 'POST', body: { document }, headers: { 'Idempotency-Key': key } });
}

export function archivePipeline(id: string): Promise<Pipeline> {
  return send(`/${id}`, { method: 'PATCH', body: { archived: true } });
}

export function fetchVersion(id: string, number: number): Promise<Version> {
  return send(`/${id}/versions/${number}`);
}

/** The newest version. */
export function fetchHead(id: string): Promise<Version> {
  return send(`/${id}/versions/head`);
}

export async function fetchVersions(id: string): Promise<readonly VersionListed[]> {
  return (await send<{ versions: VersionListed[] }>(`/${id}/versions`)).versions;
}

export interface Saving {
  readonly head: number;
  /** Tag of the draft that the document has come from; null: there was none. It ends with the version. */
  readonly draft: string | null;
  readonly message: string;
  readonly key: string;
}

/** Saves a document as the next version after `head`. Throws OutdatedError with a newer version or another draft. */
export function saveVersion(
  id: string,
  document: PipelineDocument,
  { head, draft, message, key }: Saving,
): Promise<Version> {
  const headers = { 'If-Match': `"${head}"`, 'Idempotency-Key': key };
  return send(`/${id}/versions`, { method: 'POST', body: { document, message, draft }, headers });
}

/** The user's own draft; null if there is none. */
export async function fetchDraft(id: string): Promise<Draft | null> {
  try {
    return await send<Draft>(`/${id}/draft`);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** Writes the draft over the one with this tag; null: there must be none. Throws OutdatedError with the other one. */
export function putDraft(
  id: string,
  document: PipelineDocument,
  base: number,
  tag: string | null,
  isLeaving = false,
): Promise<DraftListed> {
  const headers: Record<string, string> = tag === null ? { 'If-None-Match': '*' } : { 'If-Match': `"${tag}"` };
  const body = { document, base };
  const keepalive = isLeaving && JSON.stringify(body).length < MAX_KEPT_ALIVE_BYTES;
  return send(`/${id}/draft`, { method: 'PUT', body, headers, keepalive });
}

export async function discardDraft(id: string): Promise<void> {
  await send(`/${id}/draft`, { method: 'DELETE' });
}

// --- what the server knows of documents -----------------------------------------------------------------------------

export function fetchCatalog(): Promise<Catalog> {
  return send('/catalog');
}

export interface ValidationAnswer {
  readonly tag: string;
  /** Tag of the earlier answer that said the same of all nodes that are not in `ports`; null: all nodes are in it. */
  readonly since: string | null;
  readonly problems: readonly Problem[];
  /** By node and output; null: not known yet. */
  readonly facts: Readonly<Record<string, Readonly<Record<string, Facts | null>>>>;
  readonly ports: Readonly<Record<string, Ports>>;
  readonly labels: Readonly<Record<string, string>>;
  /** Nodes that do not run, because they or all above them are disabled. */
  readonly inactive: readonly string[];
  readonly is_deployable: boolean;
}

/** What the server says of a document, of which `before` is an earlier answer. */
export async function validate(
  document: PipelineDocument,
  before: Validation,
  signal: AbortSignal,
): Promise<Validation> {
  const body = before.tag === null ? { document } : { document, known: before.tag };
  return validationOf(await send('/validate', { method: 'POST', body, signal }), document, before);
}

/** What an answer says of a document, together with the earlier answer to which it refers. */
export function validationOf(answer: ValidationAnswer, document: PipelineDocument, before: Validation): Validation {
  const inactive = new Set(answer.inactive);
  const nodes: Record<string, NodeState> = {};
  for (const id of Object.keys(document.nodes)) {
    const ports = answer.ports[id];
    const is_active = !inactive.has(id);
    const known = answer.since === null ? undefined : before.nodes[id];
    if (ports !== undefined)
      nodes[id] = { ports, outputs: answer.facts[id] ?? {}, is_active, label: answer.labels[id] ?? '' };
    else if (known !== undefined) nodes[id] = known.is_active === is_active ? known : { ...known, is_active };
  }
  return { tag: answer.tag, problems: answer.problems, is_deployable: answer.is_deployable, nodes };
}

export interface Program {
  readonly source: string;
  readonly lines: readonly ProgramLines[];
  readonly problems: readonly Problem[];
}

export function compile(document: PipelineDocument, signal: AbortSignal): Promise<Program> {
  return send('/compile', { method: 'POST', body: { document }, signal });
}

// --- previews -------------------------------------------------------------------------------------------------------

/** Starts a preview of a document; the user's former one is stopped. `rows` is of each source. */
export function startPreview(document: PipelineDocument, rows: number): Promise<PreviewAnswer> {
  return send('/preview', { method: 'POST', body: { document, rows } });
}

export function fetchPreview(id: string): Promise<PreviewAnswer> {
  return send(`/preview/${id}`);
}

/** `isLeaving`: the page goes away, and the request must not go with it. */
export async function stopPreview(id: string, isLeaving = false): Promise<void> {
  await send(`/preview/${id}`, { method: 'DELETE', keepalive: isLeaving });
}

// --- tests, plans, renames ------------------------------------------------------------------------------------------

export async function runTest(document: PipelineDocument, name: string): Promise<TestResult> {
  const answer = await send<TestsAnswer>('/tests', { method: 'POST', body: { document, only: [name] } });
  const [result] = answer.results;
  if (result === undefined) throw new ApiError(0, t('The server has not run the test.'));
  return result;
}

export function fetchDraftPlan(document: PipelineDocument, signal: AbortSignal): Promise<DraftPlanAnswer> {
  return send('/plan', { method: 'POST', body: { document }, signal });
}

/** What the rename of a column changes, in the node that names it and in all below. */
export function renameColumn(
  document: PipelineDocument,
  [node, port]: readonly [string, string],
  column: string,
  to: string,
  signal?: AbortSignal,
): Promise<RenameAnswer> {
  const body = { document, node, port, column, to };
  return send('/rename', { method: 'POST', body, ...(signal === undefined ? {} : { signal }) });
}

/** Asks the table or the files that a node reads for their columns. */
export function readSchema(document: PipelineDocument, node: string, signal: AbortSignal): Promise<ReadSchemaAnswer> {
  return send('/read-schema', { method: 'POST', body: { document, node }, signal });
}

// --- templates ------------------------------------------------------------------------------------------------------

export interface Template {
  readonly id: string;
  readonly name: string;
  /** Its story, in lines. */
  readonly description: readonly string[];
  readonly document: PipelineDocument;
}

export async function fetchTemplates(): Promise<readonly Template[]> {
  return (await send<{ templates: Template[] }>('/templates')).templates;
}
