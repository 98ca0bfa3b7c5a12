/** A program of the tests that uses the client: one of its parts, by the first argument. */

import { ApprovalNeeded, createError, InvalidRequest, isReplyEvent, NotFound, ServiceUnavailable, TurnlogClient, TurnUnsettled, UnusableAnswer } from "./index.js";
import type { ReplyDone, TurnAnswer } from "./index.js";

declare const process: { argv: string[] };

const print = (value: unknown): void => console.log(JSON.stringify(value));
const [mode = "", url = "", session = ""] = process.argv.slice(2);
const turnlog = new TurnlogClient(url);

async function converse(): Promise<void> {
  const opened = await turnlog.openSession("assistant", { attributes: { name: "Ada" }, title: "Cities", labels: ["ts"] });
  await opened.describeSession({ title: "Capitals", metadata: { thread: "t-17" } });
  const { title, labels, metadata } = await opened.fetchState();
  print([title, labels, metadata]);
  const answer: TurnAnswer = await opened.runTurn("What is the capital of France?");
  print([answer.status, answer.reply]);
  let end = "";
  for await (const event of opened.streamTurn("And how many live there?")) {
    print(event.name === "token" ? event.data.text : event.name);
    end = event.cursor;
  }
  for await (const event of opened.watchTurn(2, end)) throw new Error(`${event.name} after the end`);
  print((await opened.fetchHistory()).turns.map((turn) => turn.reply));
  const preview = await opened.previewExclusion(1);
  print([preview.turn, preview.undone, preview.uncovered, preview.cost.micro_dollars]);
  print((await opened.excludeTurn(1)).turn);
  const names: string[] = [];
  for await (const event of opened.watchEvents()) {
    names.push(event.name);
    // The types of the OpenAPI document know the data of each type of event
    if (event.envelope.type === "turnlog.turn-excluded.v1" && event.envelope.data.turn === 1) break;
  }
  print(names.filter((name) => name.startsWith("turn-")));
  const refused = await turnlog.openSession("asistant").catch((error: unknown) => error);
  if (!(refused instanceof NotFound)) throw refused;
  print([refused.code, refused.field, refused.fix]);
}

async function stream(): Promise<void> {
  for await (const event of turnlog.useSession(session).streamTurn("Hello")) {
    print(event.name === "token" ? event.data.text : event.name);
  }
}

async function reason(): Promise<void> {
  const opened = await turnlog.openSession("assistant");
  for await (const event of opened.streamTurn("Is it?", {}, { reasoning: true })) {
    if (event.name === "reasoning") print([event.data.offset, event.data.text]);
    else if (event.name === "token") print(event.data.text);
  }
  for await (const event of opened.streamTurn("Is it?")) {
    if (event.name === "reasoning") throw new Error("nobody asked for reasoning");
  }
  const reasoning = async (asked?: boolean): Promise<unknown[]> =>
    (await opened.fetchHistory(undefined, asked)).turns.map((turn) => turn.reasoning);
  print([await reasoning(true), await reasoning()]);
}

async function submit(): Promise<void> {
  print((await turnlog.useSession(session).submitTurn("Hello")).turn);
}

async function leave(): Promise<void> {
  const opened = turnlog.useSession(session);
  const left = await opened.runTurn("Hi", {}, 0.05).catch((error: unknown) => error);
  print(left instanceof TurnUnsettled);
}

async function approve(): Promise<void> {
  const opened = await turnlog.openSession("guarded");
  const needed = await opened.runTurn("What time is it?").catch((error: unknown) => error);
  if (!(needed instanceof ApprovalNeeded)) throw needed;
  const listed = await turnlog.listApprovals({ state: "refused", limit: 1 });
  print([listed.approvals, listed.next]);
  for (const { approval, tool, arguments: given } of needed.approvals) {
    print([needed.turn, approval, tool, JSON.parse(given)]);
    await opened.decideApproval(needed.turn, approval, "refuse", { reason: "guess" });
  }
  for await (const event of opened.watchTurn(needed.turn)) {
    if (event.name === "done" && "sequence" in event.data) {
      const done: ReplyDone = event.data;
      print([done.turn, done.finish]);
    }
  }
}

async function abort(): Promise<void> {
  const leaving = new AbortController();
  const options = { types: ["turn-submitted"], signal: leaving.signal };
  for await (const event of turnlog.useSession(session).watchEvents(0, options)) {
    print(event.name);
    // No other event of this type comes, so the stream is at rest when the signal ends it
    setTimeout(() => leaving.abort(), 0);
  }
}

async function share(): Promise<void> {
  const [collection, user] = ["typescript-cases", "typescript/ann"];
  const added = await turnlog.putEntry(collection, "sailings", { text: "Count the sailings.", kind: "case" });
  const entries = [{ id: "harbour", text: "The harbour opens at six.", source: "harbour.md" }];
  const imported = await turnlog.importEntries(collection, entries, { replace_sources: true });
  print([added.added, imported.added]);
  const read = { min_sequence: imported.sequence };
  const page = await turnlog.listEntries(collection, { ...read, limit: 1 });
  const rest = await turnlog.listEntries(collection, { after: page.next ?? "" });
  print([...page.entries, ...rest.entries].map((entry) => entry.id));
  const own = (await turnlog.listCollections(read)).collections.find((each) => each.collection === collection);
  print([own?.cases, own?.documents, (await turnlog.fetchEntry(collection, "harbour")).source]);
  const found = await turnlog.searchKnowledge("When does the harbour open?", { collections: [collection], limit: 1 });
  print(found.hits.map((hit) => hit.id));
  print([(await turnlog.removeEntry(collection, "harbour")).removed, (await turnlog.removeCollection(collection)).removed]);
  await turnlog.setQuota(user, { requests_per_day: 1000 });
  const opened = await turnlog.openSession("assistant", { attributes: { language: "Lithuanian" } });
  print((await opened.runTurn("Hello", { user })).status);
  print((await opened.recordFeedback(1, "up", { comment: "Good." })).turn);
  await opened.redactTurn(1, "a word", "text", { pattern: "l+", replacement: "-" });
  await opened.redactTurn(1, "all of it", "turn", { spans: [{ begin: 0, end: 2 }] });
  print((await opened.fetchHistory()).turns.map((turn) => [turn.text, turn.text_withheld, turn.redacted]));
  const entry = { collection: "manuals", entry: "harbour" };
  const unseen = await opened.recordFeedback(1, "down", { entry }).catch((error: unknown) => error);
  print([unseen instanceof InvalidRequest, (unseen as InvalidRequest).code]);
  const { uses, allowed } = await turnlog.fetchQuota(user);
  print([uses.map((use) => [use.name, use.used]), allowed]);
  print((await turnlog.listQuotas()).quotas.filter((each) => each.user === user).length);
  const { sequence } = await opened.fetchState();
  await turnlog.send({ method: "GET", path: `/v1/sessions/${opened.session}/calls`, query: { min_sequence: sequence } });
  const listed = await turnlog.listSessions({ user, failed: false, "attribute.language": "Lithuanian" });
  print(listed.sessions.map((each) => each.session === opened.session));
  const used = await turnlog.listUses(`turn:${opened.session}/1`, { session: opened.session });
  print(used.uses.map((use) => [use.call, use.reply, use.through.length]));
  await opened.shareSession(`${user}/bo`, "submit");
  await opened.endSharing(`${user}/bo`);
  await opened.shareSession(`${user}/bo`);
  print((await opened.fetchState()).shares.map((share) => [share.user === `${user}/bo`, share.access]));
  const proof = await opened.fetchProof("1.1", sequence);
  print([proof.call, proof.sequence === sequence, proof.events.length > 0, proof.root.slice(0, 7)]);
  const looks = await turnlog.withReason("Prüfung").listReads({ session: opened.session, what: "prompt" });
  print(looks.reads.length);
  const { total, groups } = await turnlog.fetchUsage({ user, group_by: "user" });
  print([total.completed, groups.map((each) => each.group)]);
  await turnlog.setQuota(user, { input_tokens: 0 });
  const refused = await opened.runTurn("Again", { user }).catch((error: unknown) => error);
  if (!(refused instanceof ServiceUnavailable)) throw refused;
  print([refused.code, refused.problem.quota?.name]);
}

async function erase(): Promise<void> {
  const opened = await turnlog.openSession("assistant", { user: "ann" });
  for (const text of ["One.", "Two."]) await opened.runTurn(text);
  const plan = await opened.eraseWords("request", { turn: 1, of: "text", dry_run: true });
  const receipt = await opened.eraseWords("request", { turn: 1 });
  print([plan.status, receipt.status, receipt.sessions.map((each) => each.calls)]);
  print((await opened.listErasures()).erasures.map((each) => each.erasure === receipt.erasure));
  print((await opened.fetchErasure(receipt.erasure ?? 0)).status);
  const { parts } = await opened.proveErasure(receipt.erasure ?? 0, true);
  print(parts.map((each) => [each.events.length > 2, each.keys.some((left) => left.key)]));
  print((await opened.fetchHistory()).turns.map((turn) => turn.text));
  const { receipts, skipped } = await turnlog.eraseUser("ann", "request");
  print([receipts.map((each) => each.status), skipped]);
}

async function override(): Promise<void> {
  const place = ["typescript/eve", "uderia", "master_system"] as const;
  const own = await turnlog.setOverride(...place, "Answer Eve. {charting} {weather}");
  print([own.user, own.path, own.version, own.includes, own.unknown_names]);
  const narrow = { profile: "llm_only", provider: "openai" };
  print((await turnlog.setOverride(...place, "In a word.", narrow)).profile);
  const { overrides } = await turnlog.listOverrides({ user: own.user, blueprint: "uderia" });
  print(overrides.map((each) => [each.profile, each.provider]));
  print([(await turnlog.fetchOverride(...place)).text, (await turnlog.fetchOverride(...place, narrow)).text]);
  const { sequence } = await turnlog.removeOverride(...place, narrow);
  print((await turnlog.listOverrides({ user: own.user })).overrides.map((each) => each.profile));
  const removed = await turnlog.fetchOverride(...place, narrow).catch((error: unknown) => error);
  if (!(removed instanceof NotFound)) throw removed;
  print((await turnlog.fetchOverride(...place)).sequence === sequence);
}

async function upload(): Promise<void> {
  const content = new Uint8Array(1_000_000).fill(1);
  content.set([0x25, 0x50, 0x44, 0x46, 0x2d]); // %PDF-
  const stored = await turnlog.uploadBlob(content, "application/pdf");
  print(stored);
  print(await turnlog.uploadBlob(content));
  const refused = await turnlog.uploadBlob(new Uint8Array(9)).catch((error: unknown) => error);
  if (!(refused instanceof InvalidRequest)) throw refused;
  print(refused.code);
}

/** Follow the reply to the open turn between the events of its session, to the event that has it whole. */
async function follow(): Promise<void> {
  const opened = turnlog.useSession(session);
  let text = "";
  let cursor: number | string = 0;
  for await (const event of opened.watchEvents(cursor, { tokens: true })) {
    cursor = event.cursor;
    if (!isReplyEvent(event)) continue;
    if (event.name === "attempt-reset") text = "";
    else text += event.data.text;
    print([event.name, event.name === "token" ? [event.data.session === session, event.data.offset] : []]);
    if (text !== "") break;
  }
  // As after a restart: it goes on in the middle of the reply, after the cursor that was stored.
  for await (const event of opened.watchEvents(cursor, { tokens: true })) {
    if (isReplyEvent(event)) {
      if (event.name === "token") text += event.data.text;
    } else if (event.envelope.type === "turnlog.turn-completed.v1") {
      print([text, event.name]);
      break;
    }
  }
}

/** Collect the tokens of all sessions until a turn of one is over. */
async function overhear(): Promise<void> {
  const texts: string[] = [];
  for await (const event of turnlog.watchEvents(undefined, { tokens: true })) {
    if (isReplyEvent(event)) {
      if (event.name === "token" && event.data.session === session) texts.push(event.data.text);
    } else if (event.envelope.subject === session && event.name === "turn-submitted") print("open");
    else if (event.envelope.subject === session && event.name === "turn-completed") break;
  }
  print(texts.join(""));
}

async function deliver(): Promise<void> {
  const added = await turnlog.addWebhook({ name: "billing", url: session, types: ["session-closed"] });
  print([added.secret?.startsWith("whsec_"), added.webhook.status, added.webhook.types]);
  print((await turnlog.listWebhooks()).webhooks.map((each) => each.name));
  print((await turnlog.pauseWebhook("billing")).webhook.status);
  print((await turnlog.resumeWebhook("billing")).webhook.status);
  print((await turnlog.redeliverWebhook("billing")).webhook.given_up);
  const { webhook, sessions } = await turnlog.fetchWebhookDeliveries("billing");
  print([webhook.name, sessions.length === webhook.behind + webhook.given_up]);
  const refused = await turnlog
    .addWebhook({ name: "other", url: "https://elsewhere.example/in" })
    .catch((error: unknown) => error);
  print(refused instanceof InvalidRequest ? refused.code : String(refused));
  print((await turnlog.removeWebhook("billing")).webhook.name);
  print((await turnlog.listWebhooks()).webhooks);
}

async function foresee(): Promise<void> {
  const found = await turnlog.useSession(session).fetchForecast();
  print([found.session === session, found.own_turns, found.sentence !== ""]);
}

async function explain(): Promise<void> {
  const failure = new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") });
  const error = createError(new URL("/v1/sessions?q=Ada", url), null, failure);
  print([error.code, error.message]);
}

/** Read the answer and the stream of a session whose server is hostile. */
async function distrust(): Promise<void> {
  const hostile = turnlog.useSession(session);
  const read = async (): Promise<void> => {
    for await (const event of hostile.watchTurn(1)) print(event.name);
  };
  for (const trial of [() => hostile.fetchState(), read]) {
    const refused = await trial().catch((error: unknown) => error);
    print(refused instanceof UnusableAnswer ? [refused.name, refused.code] : String(refused));
  }
}

const parts: Record<string, () => Promise<void>> = {
  converse,
  stream,
  reason,
  submit,
  leave,
  approve,
  abort,
  share,
  erase,
  override,
  upload,
  follow,
  overhear,
  deliver,
  foresee,
  explain,
  distrust,
};
await parts[mode]?.();
