/** The client of a service and of its sessions. */

import type { components, paths } from "./api.js";
import { parseJson, readText } from "./bounds.js";
import { ApprovalNeeded, createError, TurnUnsettled, UnusableAnswer } from "./errors.js";
import { decodeMessages, END_EVENTS, REPLY_EVENTS } from "./events.js";
import type { ReplyEvent, SessionEvent, SseMessage, TurnEvent } from "./events.js";
import { computeRetryDelay, sleep } from "./retries.js";
import { sendUpload } from "./uploads.js";

type Schemas = components["schemas"];
export type BlobAnswer = Schemas["StoredBlobView"];
export type CallProofAnswer = Schemas["CallProofView"];
export type CommandAnswer = Schemas["CommandResult"];
export type ErasureAnswer = Schemas["ErasureReceipt"];
export type ErasureProofAnswer = Schemas["ErasureProof"];
export type ErasureListAnswer = Schemas["ErasureList"];
export type UserErasureAnswer = Schemas["UserErasure"];
export type ExclusionPreviewAnswer = Schemas["ExclusionPreviewView"];
export type HistoryAnswer = Schemas["HistoryView"];
export type SessionAnswer = Schemas["SessionView"];
export type SessionListAnswer = Schemas["SessionPage"];
export type SubmitAnswer = Schemas["SubmittedTurn"];
export type TurnAnswer = Schemas["SettledTurnView"];

/** An entry of knowledge as it is to be; what is left out is empty, and it is a document. */
export type EntryForm = Partial<Schemas["PutEntryRequest"]> & { text: string };
/** The same in an import; the same id later edits the entry. */
export type ImportedEntryForm = EntryForm & { id: string };
export type KnowledgeChangeAnswer = Schemas["KnowledgeChangeResult"];
export type CollectionListAnswer = Schemas["CollectionList"];
export type EntryAnswer = Schemas["EntryRow"];
export type EntryListAnswer = Schemas["EntryPage"];
export type KnowledgeSearchAnswer = Schemas["KnowledgeSearchResult"];

/** A user's own text in place of a prompt file. */
export type OverrideAnswer = Schemas["OverrideTextView"];
export type OverrideListAnswer = Schemas["OverridePage"];
export type OverrideRemovalAnswer = Schemas["OverrideRemovalResult"];
/** The kind of prompt file that a user may replace for their own turns. */
export type PromptCategory =
  paths["/v1/overrides/{blueprint}/{category}/{user}"]["get"]["parameters"]["path"]["category"];
/** The only profile and the only provider that an own text is for; by default it is for all. */
export interface OverridePlace {
  profile?: string;
  provider?: string;
}

/** The limits of a user; what is left out is unlimited. */
export type QuotaLimits = Schemas["QuotaRequest"];
export type QuotaAnswer = Schemas["QuotaView"];
export type QuotaListAnswer = Schemas["QuotaPage"];
export type UsageReportAnswer = Schemas["UsageReport"];
export type ReadListAnswer = Schemas["ReadPage"];
export type UseListAnswer = Schemas["UsePage"];
/** A webhook as it is to be; what is left out selects everything, from now on. */
export type WebhookForm = Pick<Schemas["AddWebhookRequest"], "name" | "url"> &
  Partial<Schemas["AddWebhookRequest"]>;
export type AddedWebhookAnswer = Schemas["AddedWebhook"];
export type WebhookListAnswer = Schemas["WebhookPage"];
export type WebhookDeliveriesAnswer = Schemas["WebhookDeliveries"];
export type WebhookAnswer = Schemas["WebhookResult"];
export type ForecastAnswer = Schemas["ForecastView"];
export type ApprovalListAnswer = Schemas["ApprovalPage"];
export type DecisionAnswer = Schemas["ApprovalResult"];

/** A turn that goes on; with the tools it waits for, where it waits for a person. */
type UnsettledAnswer = SubmitAnswer & Partial<Pick<Schemas["UndecidedTurnView"], "approvals">>;

/** What a session may be opened with beside its blueprint; `session` is an id of your own. */
export type OpeningOptions = Omit<Partial<Schemas["OpenSessionRequest"]>, "blueprint" | "key">;
/** How a session is described; null removes, and of the metadata only the keys given change. */
export type SessionDescription = Schemas["DescribeSessionRequest"];

/** A text, a picture, a recording or a file of a turn, in the order in which they are sent. */
export type TurnPart =
  | { type: "text"; text: string }
  | { type: "image" | "audio" | "file"; digest: string; name?: string }
  | { type: "image" | "audio" | "file"; data: string; media_type?: string; name?: string };

const writeInput = (input: string | TurnPart[]) =>
  typeof input === "string" ? { text: input } : { parts: input };

/** What a turn may have beside its text. */
export type RedactedPart = NonNullable<Schemas["RedactTurnRequest"]["of"]>;

export type RedactionOptions = Partial<Pick<Schemas["RedactTurnRequest"], "replacement" | "pattern" | "spans">>;

/** What is erased beside all of a session; with `dry_run` nothing is, and the answer is the plan. */
export type ErasureOptions = Partial<Omit<Schemas["EraseRequest"], "reason">>;
export type UserErasureOptions = Pick<ErasureOptions, "with_replies" | "dry_run">;

export interface TurnOptions {
  inputs?: Record<string, unknown>;
  meta?: Record<string, unknown>;
  /** Who asks, where no proxy names users: whose quota it takes from. */
  user?: string;
}

/** Which sessions `listSessions` returns: those that meet all conditions; times are RFC 3339. */
export type SessionFilters = Omit<
  NonNullable<paths["/v1/sessions"]["get"]["parameters"]["query"]>,
  "attribute"
> & { [attribute: `attribute.${string}`]: string };

/** Which turns `fetchUsage` counts, and by what; times are RFC 3339. */
export type UsageQuery = NonNullable<paths["/v1/usage"]["get"]["parameters"]["query"]>;

/** Which approvals `listApprovals` returns, by default those that wait for a person. */
export interface ApprovalQuery {
  state?: "pending" | "approved" | "refused";
  user?: string;
  since?: string;
  limit?: number;
  before?: string;
}

/** Which uses `listUses` returns; `replies` takes a reply to repeat what its prompt had. */
export interface UseQuery {
  session?: string;
  replies?: boolean;
  limit?: number;
  after?: string;
}

/** What a search of knowledge may have beside its text. */
export type SearchOptions = Partial<Omit<Schemas["SearchKnowledgeRequest"], "text">>;

/** Reads wait until they show a change of the knowledge with this `sequence`. */
export interface KnowledgeReadOptions {
  min_sequence?: number;
}

/** Which looks `listReads` returns, by default those of 31 days; times are RFC 3339. */
export type ReadQuery = NonNullable<paths["/v1/reads"]["get"]["parameters"]["query"]>;

/** How a stream is watched. */
export interface WatchOptions {
  /** Ends the stream when it is aborted: without an error, and at once. */
  signal?: AbortSignal;
}

/** How the stream of a turn is watched. */
export interface TurnWatchOptions extends WatchOptions {
  /** Whether there are `reasoning` events: what the model reasons, which is no reply. */
  reasoning?: boolean;
}

/** How events of the log are watched. */
export interface EventWatchOptions extends WatchOptions {
  /** The types of events, such as `turn-completed`; all others are left out. */
  types?: readonly string[];
  /** Whether what is generated of replies is between the events; see `isReplyEvent`. */
  tokens?: boolean;
}

type WithTokens = EventWatchOptions & { tokens: true };

/** One request, the same for each try; a command carries an idempotency key. */
export interface Operation {
  method: string;
  path: string;
  body?: Record<string, unknown>;
  query?: Record<string, string | number | boolean | null | undefined>;
  key?: string;
}

/** Seconds that the service waits for a reply within one request, at most. */
const MAX_WAIT = 300;
/** Seconds after which a stream has worked, though nothing happened on it. */
const LASTING_STREAM = 10;
/** The status of a stream that was read to its end already. */
const NO_CONTENT = 204;

function formatEventsPath(path: string, { types = [], tokens }: EventWatchOptions): string {
  const query = [
    ...(types.length === 0 ? [] : [`types=${types.join(",")}`]),
    ...(tokens ? ["tokens=true"] : []),
  ].join("&");
  return query === "" ? `${path}/events` : `${path}/events?${query}`;
}

function buildCommand(path: string, body: Record<string, unknown> = {}, method = "POST"): Operation {
  return { method, path, body, key: crypto.randomUUID() };
}

function buildRemoval(path: string, query: NonNullable<Operation["query"]> = {}): Operation {
  return { method: "DELETE", path, query, key: crypto.randomUUID() };
}

function formatCollectionPath(collection: string, entry?: string): string {
  const path = `/v1/knowledge/collections/${encodeURIComponent(collection)}`;
  return entry === undefined ? path : `${path}/entries/${encodeURIComponent(entry)}`;
}

function formatOverridePath(user: string, blueprint: string, category: PromptCategory): string {
  return `/v1/overrides/${[blueprint, category, user].map(encodeURIComponent).join("/")}`;
}

const formatWebhookPath = (name: string): string => `/v1/webhooks/${encodeURIComponent(name)}`;

const formatQuotaPath = (user: string): string => `/v1/quotas/${encodeURIComponent(user)}`;

/**
 * A connection to a service.
 *
 * A request that is not answered, or not now, is sent again for about twenty seconds. Commands carry
 * an idempotency key, so that a repeated one has one effect. What remains unanswered rejects with
 * `ServiceUnavailable`, what is refused with another `RequestFailed`.
 */
export class TurnlogClient {
  constructor(
    private readonly url: string,
    /** They go with each request. */
    private readonly headers: Record<string, string> = {},
  ) {}

  /** Open a session; `session` is an id of your own, generated by default. */
  async openSession(
    blueprint: string,
    options: OpeningOptions = {},
  ): Promise<SessionClient> {
    const opened = await this.send<{ session: string }>(
      buildCommand("/v1/sessions", { blueprint, ...options }),
    );
    return new SessionClient(this, opened.session);
  }

  /** Return the client of a session that is open already; nothing is requested. */
  useSession(session: string): SessionClient {
    return new SessionClient(this, session);
  }

  /** Return a page of sessions, newest first; `before` is the `next` of the page before it. */
  listSessions(filters: SessionFilters = {}): Promise<SessionListAnswer> {
    return this.send({ method: "GET", path: "/v1/sessions", query: { ...filters } });
  }

  /** Erase the sessions of a user, and the turns that the user asked in those of others. */
  eraseUser(user: string, reason: string, options: UserErasureOptions = {}): Promise<UserErasureAnswer> {
    return this.send(buildCommand("/v1/erasures", { user, reason, ...options }));
  }

  /** Add an entry of knowledge, or change it so that it is as given. */
  putEntry(collection: string, entry: string, form: EntryForm): Promise<KnowledgeChangeAnswer> {
    return this.send(buildCommand(formatCollectionPath(collection, entry), { ...form }, "PUT"));
  }

  /** Add or edit entries, all or none. */
  importEntries(
    collection: string,
    entries: readonly ImportedEntryForm[],
    options: { replace_sources?: boolean } = {},
  ): Promise<KnowledgeChangeAnswer> {
    return this.send(buildCommand("/v1/knowledge/import", { collection, entries, ...options }));
  }

  /** Return the collections of the knowledge. */
  listCollections(query: KnowledgeReadOptions = {}): Promise<CollectionListAnswer> {
    return this.send({ method: "GET", path: "/v1/knowledge/collections", query: { ...query } });
  }

  /** Return a page of a collection's entries; `after` is the `next` of the page before it. */
  listEntries(
    collection: string,
    query: KnowledgeReadOptions & { after?: string; limit?: number } = {},
  ): Promise<EntryListAnswer> {
    return this.send({ method: "GET", path: formatCollectionPath(collection), query: { ...query } });
  }

  /** Return an entry as it is now. */
  fetchEntry(
    collection: string,
    entry: string,
    query: KnowledgeReadOptions = {},
  ): Promise<EntryAnswer> {
    const path = formatCollectionPath(collection, entry);
    return this.send({ method: "GET", path, query: { ...query } });
  }

  /** Return what is found in collections, best first; in all where none is named. */
  searchKnowledge(text: string, options: SearchOptions = {}): Promise<KnowledgeSearchAnswer> {
    const body = { text, ...options };
    return this.send({ method: "POST", path: "/v1/knowledge/search", body });
  }

  /** Remove an entry; no later turn retrieves it. */
  removeEntry(collection: string, entry: string): Promise<KnowledgeChangeAnswer> {
    return this.send(buildRemoval(formatCollectionPath(collection, entry)));
  }

  /** Remove all entries of a collection. */
  removeCollection(collection: string): Promise<KnowledgeChangeAnswer> {
    return this.send(buildRemoval(formatCollectionPath(collection)));
  }

  /** Set a user's own text of a category, from the user's next turn on. */
  setOverride(
    user: string,
    blueprint: string,
    category: PromptCategory,
    text: string,
    place: OverridePlace = {},
  ): Promise<OverrideAnswer> {
    const path = formatOverridePath(user, blueprint, category);
    return this.send(buildCommand(path, { text, ...place }, "PUT"));
  }

  /** Return a user's own text that was set for exactly this profile and provider. */
  fetchOverride(
    user: string,
    blueprint: string,
    category: PromptCategory,
    place: OverridePlace = {},
  ): Promise<OverrideAnswer> {
    const path = formatOverridePath(user, blueprint, category);
    return this.send({ method: "GET", path, query: { ...place } });
  }

  /** Return the own texts of a user, by default of the one whom a trusted proxy names. */
  listOverrides(query: { user?: string; blueprint?: string } = {}): Promise<OverrideListAnswer> {
    return this.send({ method: "GET", path: "/v1/overrides", query });
  }

  /** Remove a user's own text that was set for exactly this profile and provider. */
  removeOverride(
    user: string,
    blueprint: string,
    category: PromptCategory,
    place: OverridePlace = {},
  ): Promise<OverrideRemovalAnswer> {
    return this.send(buildRemoval(formatOverridePath(user, blueprint, category), { ...place }));
  }

  /** Set all limits of a user; one that is left out is unlimited from then on. */
  setQuota(user: string, limits: QuotaLimits): Promise<QuotaAnswer> {
    return this.send(buildCommand(formatQuotaPath(user), { ...limits }, "PUT"));
  }

  /** Return what is left of a user's limits, and whether a turn is allowed now. */
  fetchQuota(user: string): Promise<QuotaAnswer> {
    return this.send({ method: "GET", path: formatQuotaPath(user) });
  }

  /** Return the users who have a limit. */
  listQuotas(): Promise<QuotaListAnswer> {
    return this.send({ method: "GET", path: "/v1/quotas" });
  }

  /** Return what turns used, in all and by group. */
  fetchUsage(query: UsageQuery = {}): Promise<UsageReportAnswer> {
    return this.send({ method: "GET", path: "/v1/usage", query: { ...query } });
  }

  /** Deliver events to an address from now on; only this answer has the secret. */
  addWebhook(form: WebhookForm): Promise<AddedWebhookAnswer> {
    return this.send(buildCommand("/v1/webhooks", { ...form }));
  }

  /** Return the webhooks with how far each has got. */
  listWebhooks(): Promise<WebhookListAnswer> {
    return this.send({ method: "GET", path: "/v1/webhooks" });
  }

  /** Return how far a webhook has got, with every session that is behind. */
  fetchWebhookDeliveries(name: string): Promise<WebhookDeliveriesAnswer> {
    return this.send({ method: "GET", path: `${formatWebhookPath(name)}/deliveries` });
  }

  /** Deliver nothing until the webhook is resumed. */
  pauseWebhook(name: string): Promise<WebhookAnswer> {
    return this.send(buildCommand(`${formatWebhookPath(name)}/pause`));
  }

  /** Deliver from where the webhook was, also if a deliverer stopped it by itself. */
  resumeWebhook(name: string): Promise<WebhookAnswer> {
    return this.send(buildCommand(`${formatWebhookPath(name)}/resume`));
  }

  /** Deliver what was given up, of one session or of all, from where each of them was. */
  redeliverWebhook(name: string, session?: string): Promise<WebhookAnswer> {
    return this.send(buildCommand(`${formatWebhookPath(name)}/redeliver`, { session }));
  }

  /** Remove a webhook. */
  removeWebhook(name: string): Promise<WebhookAnswer> {
    return this.send(buildRemoval(formatWebhookPath(name)));
  }

  /** Return a page of the tools of all sessions that wait for a person, newest first. */
  listApprovals(query: ApprovalQuery = {}): Promise<ApprovalListAnswer> {
    return this.send({ method: "GET", path: "/v1/approvals", query: { ...query } });
  }

  /** Return who looked at prompts, withheld texts, bundles and exports, the newest first. */
  listReads(query: ReadQuery = {}): Promise<ReadListAnswer> {
    return this.send({ method: "GET", path: "/v1/reads", query: { ...query } });
  }

  /** Return a client for the same service whose looks at prompts and exports say why. */
  withReason(reason: string): TurnlogClient {
    // A header has bytes, and `fetch` takes each of them as a character.
    const value = String.fromCharCode(...new TextEncoder().encode(reason));
    return new TurnlogClient(this.url, { ...this.headers, "Turnlog-Reason": value });
  }

  /** Return a page of the calls that had a source in their prompt: `turn:SESSION/3`. */
  listUses(source: string, query: UseQuery = {}): Promise<UseListAnswer> {
    return this.send({ method: "GET", path: "/v1/uses", query: { source, ...query } });
  }

  /**
   * Store a picture, a recording or a file, and return its digest for a part of a turn.
   *
   * What the service has already is not sent, and after a connection broke, the rest alone is. The
   * service finds the type by the bytes.
   */
  uploadBlob(content: Uint8Array, mediaType = "application/octet-stream"): Promise<BlobAnswer> {
    return sendUpload(this.url, this.headers, content, mediaType);
  }

  /**
   * Yield the events of all sessions, past and then live, without end.
   *
   * With `tokens` what is generated of replies from now on is between them.
   */
  watchEvents(after: string | undefined, options: WithTokens): AsyncGenerator<SessionEvent | ReplyEvent>;
  watchEvents(after?: string, options?: EventWatchOptions): AsyncGenerator<SessionEvent>;
  async *watchEvents(
    after = "",
    options: EventWatchOptions = {},
  ): AsyncGenerator<SessionEvent | ReplyEvent> {
    const path = formatEventsPath("/v1", options);
    for await (const message of this.watchStream(path, after, options)) {
      yield parseSessionEvent(message);
    }
  }

  /** Return the answer of an operation. */
  async send<Answer>(operation: Operation): Promise<Answer> {
    return parseJson<Answer>(await readText(await this.request(operation)));
  }

  /** Return the successful response to an operation, sent again while that may help. */
  async request(operation: Operation): Promise<Response> {
    const { method, path, body, query = {}, key } = operation;
    const address = new URL(path, this.url);
    for (const [name, value] of Object.entries(query)) {
      if (value != null) address.searchParams.set(name, String(value));
    }
    const headers = {
      ...this.headers,
      ...(key === undefined ? {} : { "Idempotency-Key": key }),
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    };
    const content = body === undefined ? {} : { body: JSON.stringify(body) };
    for (let tries = 1; ; tries += 1) {
      let failure: unknown = null;
      const request = { method, headers, ...content, redirect: "manual" } as const;
      const response = await fetch(address, request).catch((error: unknown) => {
        failure = error;
        return null;
      });
      if (response?.ok) return response;
      const delay = computeRetryDelay(tries, response);
      if (delay === null) {
        const text = response === null ? "" : await readText(response);
        throw createError(address, response, failure, text);
      }
      await response?.body?.cancel();
      await sleep(delay);
    }
  }

  /**
   * Yield the messages of a stream; go on after the last one when it breaks off.
   *
   * Rejects when the service cannot be reached, or the stream gets no further, for long. It ends
   * when `signal` is aborted.
   */
  async *watchStream(
    path: string,
    after: string,
    { signal }: WatchOptions = {},
  ): AsyncGenerator<SseMessage> {
    const address = new URL(path, this.url);
    let cursor = after;
    for (let tries = 1; ; tries += 1) {
      const position = cursor === "" ? {} : { "Last-Event-ID": cursor };
      const headers = { ...this.headers, Accept: "text/event-stream", ...position };
      let refusal: Response | null = null;
      let failure: unknown = null;
      const begun = performance.now();
      const request = { headers, redirect: "manual", ...(signal && { signal }) } as const;
      const response = await fetch(address, request).catch((error: unknown) => {
        failure = error;
        return null;
      });
      if (response?.status === NO_CONTENT) return;
      if (response?.ok && response.body !== null) {
        const messages = decodeMessages(response.body);
        try {
          for (;;) {
            const next = await messages.next().catch((error: unknown) => {
              if (error instanceof UnusableAnswer) throw error;
              failure = error;
              return null;
            });
            if (next === null || next.done) break; // Broken off, it goes on after the cursor.
            if (next.value.cursor !== "" && next.value.cursor !== cursor) {
              cursor = next.value.cursor;
              tries = 1;
            }
            yield next.value;
          }
        } finally {
          await messages.return(undefined);
        }
      } else {
        refusal = response;
      }
      if (performance.now() - begun > LASTING_STREAM * 1000) tries = 1;
      if (signal?.aborted) return;
      const delay = computeRetryDelay(tries, refusal);
      if (delay === null) {
        const text = refusal === null ? "" : await readText(refusal);
        throw createError(address, refusal, failure, text);
      }
      await sleep(delay, signal);
    }
  }
}

function parseSessionEvent({ name, cursor, data }: SseMessage): SessionEvent | ReplyEvent {
  if (REPLY_EVENTS.has(name)) return { name, cursor, data: parseJson(data) } as ReplyEvent;
  return { name, cursor, envelope: parseJson(data) };
}

/** One session of a service. */
export class SessionClient {
  private readonly path: string;

  constructor(
    private readonly turnlog: TurnlogClient,
    readonly session: string,
  ) {
    this.path = `/v1/sessions/${encodeURIComponent(session)}`;
  }

  /**
   * Submit a turn and return its outcome; a failed turn is an outcome, not an error.
   *
   * Rejects with `TurnUnsettled` after `timeout` seconds, and with `ApprovalNeeded` as soon as the
   * turn waits for a person; in both cases the turn goes on.
   */
  async runTurn(
    input: string | TurnPart[],
    options: TurnOptions = {},
    timeout = MAX_WAIT,
  ): Promise<TurnAnswer> {
    const submit = buildCommand(`${this.path}/turns`, { ...writeInput(input), ...options });
    const ends = performance.now() + timeout * 1000;
    for (;;) {
      const left = Math.min(Math.max((ends - performance.now()) / 1000, 0.001), MAX_WAIT);
      const response = await this.turnlog.request({ ...submit, query: { wait: left.toFixed(3) } });
      const text = await readText(response);
      if (response.status === 200) return parseJson<TurnAnswer>(text);
      const { turn, approvals = [] } = parseJson<UnsettledAnswer>(text);
      if (approvals.length > 0) throw new ApprovalNeeded(turn, approvals);
      if (performance.now() >= ends) throw new TurnUnsettled(turn);
    }
  }

  /** Submit a turn and return at once; it is on the log then. */
  submitTurn(input: string | TurnPart[], options: TurnOptions = {}): Promise<SubmitAnswer> {
    const body = { ...writeInput(input), ...options };
    return this.turnlog.send(buildCommand(`${this.path}/turns`, body));
  }

  /** Submit a turn and yield the events of its reply, to its end. */
  async *streamTurn(
    input: string | TurnPart[],
    options: TurnOptions = {},
    watch: TurnWatchOptions = {},
  ): AsyncGenerator<TurnEvent> {
    const submitted = await this.submitTurn(input, options);
    yield* this.watchTurn(submitted.turn, "", watch);
  }

  /** Yield the events of a turn's reply, to its end; `after` is the cursor of an event. */
  async *watchTurn(
    turn: number,
    after = "",
    options: TurnWatchOptions = {},
  ): AsyncGenerator<TurnEvent> {
    const query = options.reasoning ? "?reasoning=true" : "";
    const path = `${this.path}/turns/${turn}/stream${query}`;
    for await (const { name, data, cursor } of this.turnlog.watchStream(path, after, options)) {
      yield { name, data: parseJson(data), cursor } as TurnEvent;
      if (END_EVENTS.has(name)) return;
    }
  }

  /**
   * Yield the events of the session after a sequence, past and then live, without end.
   *
   * With `tokens` the reply to the open turn is between them. `after` is then a sequence or the `cursor` of
   * what came last, with which the stream goes on in the middle of a reply.
   */
  watchEvents(
    after: number | string | undefined,
    options: WithTokens,
  ): AsyncGenerator<SessionEvent | ReplyEvent>;
  watchEvents(after?: number, options?: EventWatchOptions): AsyncGenerator<SessionEvent>;
  async *watchEvents(
    after: number | string = 0,
    options: EventWatchOptions = {},
  ): AsyncGenerator<SessionEvent | ReplyEvent> {
    const path = formatEventsPath(this.path, options);
    for await (const message of this.turnlog.watchStream(path, String(after), options)) {
      yield parseSessionEvent(message);
    }
  }

  /** Return the state of the session, now or at a sequence. */
  fetchState(at?: number): Promise<SessionAnswer> {
    return this.turnlog.send({ method: "GET", path: this.path, query: { at } });
  }

  /** Return the turns of the session, now or at a sequence; with what the model reasoned, if asked. */
  fetchHistory(at?: number, reasoning?: boolean): Promise<HistoryAnswer> {
    const query = { at, reasoning: reasoning ? "true" : undefined };
    return this.turnlog.send({ method: "GET", path: `${this.path}/history`, query });
  }

  /** Return when a prompt is next cut or summarised, by which rule, and how sure that is. */
  fetchForecast(): Promise<ForecastAnswer> {
    return this.turnlog.send({ method: "GET", path: `${this.path}/forecast` });
  }

  /** Return the proof that a call is among the first events of the session, by default all. */
  fetchProof(call: string, sequence?: number): Promise<CallProofAnswer> {
    const path = `${this.path}/calls/${encodeURIComponent(call)}/proof`;
    return this.turnlog.send({ method: "GET", path, query: { sequence } });
  }

  /** Cancel the open turn, or a queued one. */
  cancelTurn(turn?: number): Promise<CommandAnswer> {
    return this.command("cancel", { turn });
  }

  /**
   * Approve or refuse a tool that waits for it; the model reads the reason of a refusal.
   *
   * `shown` is the `digest` of the arguments that the person was shown, and `arguments` what the
   * person wrote instead of them.
   */
  decideApproval(
    turn: number,
    approval: number,
    decision: "approve" | "refuse",
    options: { reason?: string; shown?: string; arguments?: Record<string, unknown> } = {},
  ): Promise<DecisionAnswer> {
    const path = `${this.path}/turns/${turn}/approvals/${approval}`;
    return this.turnlog.send(buildCommand(path, { decision, ...options }));
  }

  /**
   * Judge the reply of a turn, and so what it had retrieved, or one `entry` that it had retrieved;
   * `none` takes a vote back.
   */
  recordFeedback(
    turn: number,
    vote: "up" | "down" | "none",
    options: { comment?: string; entry?: Schemas["JudgedEntry"] } = {},
  ): Promise<CommandAnswer> {
    return this.command(`turns/${turn}/feedback`, { vote, ...options });
  }

  /** Close the session and its children: they accept no more turns. */
  closeSession(reason?: string): Promise<Schemas["CloseResult"]> {
    return this.turnlog.send(buildCommand(`${this.path}/close`, { reason }));
  }

  /** Change the title, the labels or the metadata; what is left out stays as it is. */
  describeSession(description: SessionDescription): Promise<CommandAnswer> {
    return this.turnlog.send(buildCommand(this.path, { ...description }, "PATCH"));
  }

  /** Let another user read the session, or take part in it with `submit`. */
  shareSession(user: string, access: "read" | "submit" = "read"): Promise<CommandAnswer> {
    return this.turnlog.send(buildCommand(`${this.path}/shares/${encodeURIComponent(user)}`, { access }, "PUT"));
  }

  /** End what a user may do in the session. */
  endSharing(user: string): Promise<CommandAnswer> {
    return this.turnlog.send(buildRemoval(`${this.path}/shares/${encodeURIComponent(user)}`));
  }

  /** Move to a phase; `carry` is what that phase is told of this one. */
  enterPhase(to: string, carry?: string): Promise<CommandAnswer> {
    return this.command("phase", { to, carry });
  }

  /** Make a choice that the current phase offers. */
  recordChoice(choice: string): Promise<CommandAnswer> {
    return this.command("choices", { choice });
  }

  /** Switch to another profile or model, from the next turn on. */
  switchProfile(options: { profile?: string; model?: string }): Promise<CommandAnswer> {
    return this.command("profile", { ...options });
  }

  /** Exclude a turn from all later windows; the record keeps it. */
  excludeTurn(turn: number): Promise<CommandAnswer> {
    return this.turnlog.send(this.buildExclusion(turn, "PUT"));
  }

  /** Return which summaries `excludeTurn` would undo, and what they cost. */
  previewExclusion(turn: number): Promise<ExclusionPreviewAnswer> {
    return this.turnlog.send({ method: "GET", path: this.formatExclusionPath(turn) });
  }

  /** Include an excluded turn again. */
  restoreTurn(turn: number): Promise<CommandAnswer> {
    return this.turnlog.send(this.buildExclusion(turn, "DELETE"));
  }

  /** Redact the reply of a turn, for all readers but an audit. */
  redactReply(turn: number, reason: string, replacement?: string): Promise<CommandAnswer> {
    return this.command("redactions", { turn, reason, replacement });
  }

  /**
   * Redact a reply, the text of a turn, or both, for all readers but an audit. With a pattern of RE2, or parts by
   * the code points where they begin and end, the rest of the text stays. A reply may repeat the words.
   */
  redactTurn(turn: number, reason: string, of: RedactedPart, options: RedactionOptions = {}): Promise<CommandAnswer> {
    return this.command("redactions", { turn, reason, of, ...options });
  }

  /**
   * Erase all words of a sealed session, or something of one turn, for good, with all that was made of them. The
   * receipt names it.
   */
  eraseWords(reason: string, options: ErasureOptions = {}): Promise<ErasureAnswer> {
    return this.turnlog.send(buildCommand(`${this.path}/erasures`, { reason, ...options }));
  }

  /** Return the receipts of all erasures, after a checking pass. */
  listErasures(): Promise<ErasureListAnswer> {
    return this.turnlog.send({ method: "GET", path: `${this.path}/erasures` });
  }

  /** Return the receipt of the erasure that an event began, after a checking pass. */
  fetchErasure(sequence: number): Promise<ErasureAnswer> {
    return this.turnlog.send({ method: "GET", path: `${this.path}/erasures/${sequence}` });
  }

  /** Return what `turnlog receipt` signs of an erasure; with the keys that are left, if asked. */
  proveErasure(sequence: number, withKeys?: boolean): Promise<ErasureProofAnswer> {
    const query = { with_keys: withKeys ? "true" : undefined };
    return this.turnlog.send({ method: "GET", path: `${this.path}/erasures/${sequence}/proof`, query });
  }

  /** Return the client of a new session that continues from a sequence of this one. */
  async forkSession(at: number, session?: string): Promise<SessionClient> {
    const forked = await this.command("fork", { at, session });
    return new SessionClient(this.turnlog, forked.session);
  }

  private command(name: string, body: Record<string, unknown>): Promise<CommandAnswer> {
    return this.turnlog.send(buildCommand(`${this.path}/${name}`, body));
  }

  private buildExclusion(turn: number, method: string): Operation {
    return { method, path: this.formatExclusionPath(turn), key: crypto.randomUUID() };
  }

  private formatExclusionPath(turn: number): string {
    return `${this.path}/turns/${turn}/exclusion`;
  }
}
