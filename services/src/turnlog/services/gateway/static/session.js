// One session: the conversation on the left and its events on the right, both live. Past events are
// fetched once; then one event stream, and one turn stream for each open turn, deliver updates.

import { to, toProof } from "/page/address.js";
import { conversation } from "/page/conversation.js";
import { diffPane } from "/page/diff.js";
import { make, show } from "/page/dom.js";
import { forksOf } from "/page/forks.js";
import { growthPane } from "/page/growth.js";
import { sessionHead } from "/page/head.js";
import { get, ofSession } from "/page/http.js";
import { pastPane } from "/page/past.js";
import { promptPane } from "/page/prompt.js";
import { proofPane } from "/page/proof.js";
import { record } from "/page/record.js";
import { nameOf } from "/page/sentences.js";
import { supposingPane } from "/page/supposing.js";
import { stream } from "/page/streams.js";
import { sessionTabs } from "/page/tabs.js";
import { versionPane } from "/page/version.js";
import { whyPane } from "/page/why.js";

const PAST = 200;
const MOVES_CALLS = ["context-assembled", "attempt-ended", "call-completed"];

export function sessionView(session) {
  const head = sessionHead(session, verify);
  const tabs = sessionTabs(session);
  const side = make("section", { class: "side" }, tabs.element);
  const chat = conversation(session);
  const panes = make("div", { class: "panes" }, chat.element, side);
  const element = make("div", { class: "session" }, head.element, panes);
  const log = record(session);
  const past = pastPane(session);
  const prompt = promptPane(session);
  const why = whyPane(session);
  const difference = diffPane(session);
  const growth = growthPane(session);
  const proof = proofPane(session, head.proven);
  const supposing = supposingPane(session);
  const version = versionPane(session);
  let facts = null;
  let calls = [];
  let forks = 0;
  let live = null;
  let rest = [];
  let query = new URLSearchParams();
  let refreshing = null;
  let closed = false;

  async function open() {
    facts = await get(ofSession(session));
    const from = Math.max(0, facts.sequence - PAST);
    const [page, told] = await Promise.all([
      get(ofSession(session, "events"), { after: from, limit: 1000 }),
      get(ofSession(session, "history")),
      forksOf(session).then((found) => { forks = found; }),
    ]);
    if (closed) return;
    log.begin(page.events);
    chat.begin(told, facts);
    facts.sequence = page.after;
    live = stream(() => `${ofSession(session, "events")}?after=${facts.sequence}`, log.listeners(take));
    await refreshCalls();
  }

  function take(envelope) {
    log.add(envelope);
    chat.take(envelope);
    facts.sequence = envelope.sequence;
    const name = nameOf(envelope.type);
    if (name === "session-closed") facts.closed = true;
    if (name === "turn-submitted" || name === "turn-queued") facts.turns += 1;
    if (name === "blueprint-moved") moved(envelope.data.blueprint);
    if (name === "profile-switched") facts = { ...facts, profile: envelope.data.profile, model: envelope.data.model };
    if (name === "phase-entered") facts = { ...facts, phase: envelope.data.phase };
    if (MOVES_CALLS.includes(name)) refreshCalls(envelope.sequence);
    head.unproven();
    drawHead();
  }

  function moved({ version: number, digest }) {
    facts = { ...facts, version: number, digest };
    drawSide();
  }

  // The read models lag behind the log, so the request asks for rows up to the event just seen.
  async function refreshCalls(sequence = facts.sequence) {
    refreshing = Math.max(refreshing ?? 0, sequence);
    const wanted = refreshing;
    const found = await get(ofSession(session, "calls"), { min_sequence: wanted }).catch(() => null);
    if (!found || closed || wanted < refreshing) return;
    calls = found.calls;
    chat.price(calls);
    drawHead();
    drawSide();
  }

  const drawHead = () => head.draw(facts, calls, chat.title(), forks);

  function verify() {
    if (location.hash === toProof(session)) proof.show(facts.sequence);
    else location.hash = toProof(session);
  }

  function drawSide() {
    const [what, which, how, second] = rest;
    const call = what === "calls" ? which : null;
    const at = what === "at" ? Number(which) : null;
    const other = query.get("other");
    tabs.draw(rest, other, calls, facts.sequence);
    drawChat(at);
    const pane = { why, diff: difference }[call && how] ?? (call ? prompt : { growth, proof, version, "what-if": supposing }[what] ?? log);
    const turned = pane.element.parentNode !== side;
    if (turned) show(side, tabs.element, pane.element);
    if (pane === difference) difference.show(call, second, other, calls);
    else if (pane === why) why.show(call);
    else if (pane === prompt) prompt.show(call, calls);
    else if (pane === growth) growth.show(calls);
    else if (pane === proof && turned) proof.show(facts.sequence);
    else if (pane === version) version.show(facts);
    else if (pane === supposing) supposing.show(query);
    else if (pane === log) drawRecord(what === "events" ? Number(which) : at, turned);
    chat.mark(second ?? call);
  }

  function drawRecord(sequence, turned) {
    log.open(sequence);
    if (turned && sequence === null) log.atEnd();
  }

  function drawChat(at) {
    const wanted = at ? past : chat;
    if (wanted.element.parentNode !== panes) show(panes, wanted.element, side);
    if (at) past.show(at, facts.sequence);
  }

  const opening = open().then(drawSide).catch((problem) => {
    show(element, make("div", { class: "empty" }, make("p", { class: "fault" }, problem.message),
      make("p", {}, make("a", { href: to([]) }, "← all sessions"))));
  });

  return {
    element,
    close: () => { closed = true; live?.close(); chat.close(); },
    go: (steps, asked) => {
      rest = steps;
      query = asked;
      opening.then(() => facts && drawSide());
    },
  };
}
