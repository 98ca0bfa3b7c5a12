// One session: the conversation on the left and its events on the right, both live. Past events are
// fetched once; then one event stream, and one turn stream for each open turn, deliver updates.

import { createElement, setChildren } from "../app/dom.js";
import { openEventSource } from "../app/event_source.js";
import { readContent } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { noteScroll, restoreScroll } from "../app/kept_place.js";
import { linkToSessions, linkToVerification } from "../app/links.js";
import { isSharedToRead } from "../app/permissions.js";
import { createVersionView } from "../audit/blueprint_version.js";
import { createDiffView } from "../audit/diff_view.js";
import { createGrowthView } from "../audit/growth_view.js";
import { createPromptView } from "../audit/prompt_view.js";
import { createTimeTravel } from "../audit/time_travel.js";
import { createVerificationView } from "../audit/verification_view.js";
import { createWhatIfView } from "../audit/what_if_view.js";
import { createWhyView } from "../audit/why_view.js";
import { formatEventName } from "../events/event_sentences.js";
import { createEventTable } from "../events/event_table.js";
import { createTimelineView } from "../turn/timeline_view.js";
import { createTurnEvents } from "../turn/turn_events.js";
import { createAnnouncer } from "./announcements.js";
import { createConversation } from "./conversation.js";
import { countDerived } from "./session_forks.js";
import { createSessionHeader } from "./session_header.js";
import { createSessionTabs } from "./session_tabs.js";

const RECENT_EVENTS = 200;
const CALL_EVENTS = ["context-assembled", "attempt-ended", "call-completed", "turn-completed"];

// An event has what changed; an empty title or list means that there is none any more.
function applyDescription(facts, { title, labels }) {
  return { ...facts, title: title ? readContent(title) : facts.title, labels: labels ?? facts.labels };
}

function applyShare(facts, { user, access }) {
  const others = facts.shares.filter((share) => share.user !== user);
  return { ...facts, shares: access === "none" ? others : [...others, { user, access }] };
}

// `reopenView` is called where what is shown was erased.
export function createSessionView(session, reopenView) {
  const header = createSessionHeader(session, showVerification, () => conversation.listPhases());
  const tabs = createSessionTabs(session);
  const announcer = createAnnouncer();
  const side = createElement("section", { class: "side", "aria-label": "Record and audit" }, tabs.element);
  const conversation = createConversation(session);
  const panes = createElement("div", { class: "panes" }, conversation.element, side);
  const element = createElement("div", { class: "session" }, header.element, panes, announcer.element);
  const eventTable = createEventTable(session);
  const timeTravel = createTimeTravel(session);
  const prompt = createPromptView(session, loadTurn);
  const timeline = createTimelineView(session, conversation.findTurn, conversation.listTurns);
  const turnEvents = createTurnEvents(session);
  const why = createWhyView(session);
  const diff = createDiffView(session);
  const growth = createGrowthView(session);
  const verification = createVerificationView(session, header.showVerified);
  const whatIf = createWhatIfView(session);
  const version = createVersionView(session);
  let facts = null;
  let calls = [];
  let usage = null;
  let derived = { forks: 0, children: 0 };
  let source = null;
  let path = [];
  let query = new URLSearchParams();
  let refreshing = null;
  let closed = false;

  async function openSession() {
    facts = await fetchJson(buildSessionPath(session));
    const from = Math.max(0, facts.sequence - RECENT_EVENTS);
    const [page, history] = await Promise.all([
      fetchJson(buildSessionPath(session, "events"), { after: from, limit: 1000 }),
      fetchJson(buildSessionPath(session, "history")),
      countDerived(session).then((result) => { derived = result; }),
    ]);
    if (closed) return;
    element.classList.toggle("reads-only", isSharedToRead(facts));
    eventTable.load(page.events);
    conversation.load(history, facts);
    facts.sequence = page.after;
    source = openEventSource(() => `${buildSessionPath(session, "events")}?after=${facts.sequence}`, {
      ...eventTable.listeners(applyEvent),
      unreadable: showUnreadable,
    });
    await refreshCalls();
  }

  function applyEvent(envelope) {
    if (formatEventName(envelope.type) === "content-erased") {
      reopenView();
      return;
    }
    eventTable.add(envelope);
    conversation.apply(envelope);
    turnEvents.apply(envelope);
    facts.sequence = envelope.sequence;
    const name = formatEventName(envelope.type);
    announcer.announce(name, envelope.data);
    if (name === "session-closed") facts.closed = true;
    if (name === "turn-submitted" || name === "turn-queued") facts.turns += 1;
    if (name === "session-described") facts = applyDescription(facts, envelope.data);
    if (name === "share-changed") {
      facts = applyShare(facts, envelope.data);
      element.classList.toggle("reads-only", isSharedToRead(facts));
    }
    if (name === "blueprint-moved") applyMove(envelope.data.blueprint);
    if (name === "profile-switched") facts = { ...facts, profile: envelope.data.profile, model: envelope.data.model };
    if (name === "phase-entered") facts = { ...facts, phase: envelope.data.phase };
    if (CALL_EVENTS.includes(name)) refreshCalls(envelope.sequence);
    header.showUnverified();
    drawHeader();
    if (["calls", "turns"].includes(path[0]) && envelope.data.turn === Number.parseInt(path[1], 10)) drawSidePane();
  }

  // The stream ends here, and would only say so again.
  async function showUnreadable() {
    source.close();
    const { unreadable } = await fetchJson(buildSessionPath(session));
    facts = { ...facts, unreadable };
    drawHeader();
  }

  async function loadTurn(number) {
    const turn = conversation.findTurn(number);
    return { turn, events: await turnEvents.load(number, turn.sequence) };
  }

  function applyMove({ version: number, digest }) {
    facts = { ...facts, version: number, digest };
    drawSidePane();
  }

  // The read models lag behind the log, so the request asks for rows up to the event just seen.
  async function refreshCalls(sequence = facts.sequence) {
    refreshing = Math.max(refreshing ?? 0, sequence);
    const minSequence = refreshing;
    const result = await fetchJson(buildSessionPath(session, "calls"), { min_sequence: minSequence }).catch(() => null);
    if (!result || closed || minSequence < refreshing) return;
    ({ calls, usage } = result);
    conversation.setCalls(calls);
    drawHeader();
    drawSidePane();
  }

  const drawHeader = () => header.draw(facts, usage, conversation.title(), derived);

  function showVerification() {
    if (location.hash === linkToVerification(session)) verification.show(facts.sequence);
    else location.hash = linkToVerification(session);
  }

  function drawSidePane() {
    const [view, item, mode, otherItem] = path;
    const call = view === "calls" ? item : null;
    const at = view === "at" ? Number(item) : null;
    const other = query.get("other");
    tabs.draw(path, other, calls, facts.sequence, conversation.listTurns().at(-1) ?? null);
    drawConversation(at);
    const pane = { why, diff }[call && mode] ?? (call ? prompt : { turns: timeline, growth, proof: verification, version, "what-if": whatIf }[view] ?? eventTable);
    const isSwitched = pane.element.parentNode !== side;
    if (isSwitched) switchPane(pane.element);
    tabs.labelPanel(pane.element);
    if (pane === diff) diff.show(call, otherItem, other, calls);
    else if (pane === why) why.show(call);
    else if (pane === prompt) prompt.show(call, calls);
    else if (pane === timeline) timeline.show(Number(item), calls);
    else if (pane === growth) growth.show(calls);
    else if (pane === verification && isSwitched) verification.show(facts.sequence);
    else if (pane === version) version.show(facts);
    else if (pane === whatIf) whatIf.show(query);
    else if (pane === eventTable) eventTable.open(view === "events" ? Number(item) : at);
    conversation.markCall(otherItem ?? call);
  }

  // A pane that comes back is where it was left.
  function switchPane(pane) {
    if (side.lastChild !== tabs.element) {
      noteScroll(side.lastChild);
      side.lastChild.removeAttribute("id");
      side.lastChild.remove();
    }
    side.append(pane);
    if (pane === eventTable.element) eventTable.restorePlace();
    else restoreScroll(pane);
  }

  // In a narrow window the views are below the conversation, out of sight of who follows a link to one; an
  // earlier conversation is above them.
  function revealPane() {
    const pane = path[0] === "at" ? panes.firstChild : side;
    const { top, bottom } = pane.getBoundingClientRect();
    if (path.length && (top > innerHeight / 2 || bottom < innerHeight / 2)) pane.scrollIntoView();
  }

  function drawConversation(at) {
    const pane = at ? timeTravel : conversation;
    if (pane.element.parentNode !== panes) switchConversation(pane.element);
    if (at) timeTravel.show(at, facts.sequence);
  }

  function switchConversation(pane) {
    if (panes.firstChild !== side) noteScroll(panes.firstChild);
    if (panes.firstChild !== side) panes.firstChild.remove();
    panes.prepend(pane);
    restoreScroll(pane);
  }

  const opening = openSession().then(drawSidePane).catch((problem) => {
    setChildren(element, createElement("div", { class: "empty" }, createElement("p", { class: "fault" }, problem.message),
      createElement("p", {}, createElement("a", { href: linkToSessions() }, "← all sessions"))));
  });

  return {
    element,
    skips: {
      "the message input": () => element.querySelector(".composer textarea"),
      "the conversation": () => element.querySelector(".chat .scroll"),
      "the views of the session": () => element.querySelector(".tabs [aria-current]"),
    },
    close: () => { closed = true; source?.close(); conversation.close(); },
    go: (steps, newQuery) => {
      path = steps;
      query = newQuery;
      opening.then(() => {
        if (!facts) return;
        drawSidePane();
        revealPane();
      });
    },
  };
}
