// The conversation as people read it, folded from the stored events. The text of an open turn comes
// from the turn stream; the recorded reply replaces it.

import { renderTurnActions } from "../actions/turn_actions.js";
import { createElement, setChildren } from "../app/dom.js";
import { renderFoldedText } from "../app/folding.js";
import { readContent } from "../app/formatting.js";
import { linkToTimeline } from "../app/links.js";
import { scrollIntoSight } from "../app/quiet_scrolling.js";
import { makeFocusRove } from "../app/roving_focus.js";
import { formatEventName } from "../events/event_sentences.js";
import { renderCallLines } from "../turn/call_figures.js";
import { describeCancel, describeFailure, renderFailure } from "../turn/failure_rendering.js";
import { createComposer } from "./composer.js";
import { renderParts } from "./media_parts.js";
import { buildPhaseVisit, drawInOrder, renderPhaseDivider } from "./phase_dividers.js";
import { ACTIVITY_FOLDS, renderTurnActivity } from "./turn_activity.js";
import { watchTurn } from "./turn_stream.js";

const PAGE_SIZE = 100;

export function createConversation(session) {
  const turns = new Map();
  const articles = new Map();
  const list = createElement("div", { class: "turns", role: "group", "aria-label": "Turns; arrow keys move between them" });
  const earlier = createElement("button", { class: "quiet earlier", type: "button", hidden: true, on: { click: showEarlier } }, "earlier turns");
  const scroll = createElement("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Conversation" }, earlier, list);
  const composer = createComposer(session);
  const element = createElement("section", { class: "chat" }, scroll, composer.element);
  makeFocusRove(list, "article", { startsAtEnd: true });
  const streams = new Map();
  let visits = [];
  let lastSequence = 0;
  let markedCall = null;
  let shown = PAGE_SIZE;
  let isSealed = false;

  function loadHistory(history, facts) {
    for (const turn of history.turns) turns.set(turn.turn, turn);
    visits = history.stays;
    lastSequence = history.sequence;
    isSealed = facts.sealed && !facts.erased;
    composer.close(facts.closed);
    drawTurns();
    scroll.scrollTop = scroll.scrollHeight;
  }

  function applyEvent(envelope) {
    if (envelope.sequence <= lastSequence) return;
    lastSequence = envelope.sequence;
    const name = formatEventName(envelope.type);
    const fold = FOLDS[name];
    if (name === "session-closed") composer.close(true);
    if (name === "phase-entered") startPhase(buildPhaseVisit(envelope));
    if (!fold) return;
    const number = envelope.data.turn;
    const isFoldedAway = turns.has(number) && !articles.has(number);
    const before = turns.get(number) ?? {};
    const start = turns.has(number) ? {} : { sequence: envelope.sequence, submitted_at: envelope.time };
    turns.set(number, { ...before, ...start, ...fold(envelope.data, before) });
    if (TURN_STARTS.includes(name)) moveToCurrentPhase(number);
    if (!isFoldedAway) drawTurn(number);
  }

  function startPhase(visit) {
    visits = [...visits, visit];
    drawDivider(visit);
  }

  function moveToCurrentPhase(number) {
    visits = visits.map((visit) => ({ ...visit, turns: visit.turns.filter((each) => each !== number) }));
    visits.at(-1)?.turns.push(number);
  }

  const drawDivider = (visit) => list.append(renderPhaseDivider(visit));

  function showEarlier() {
    shown += PAGE_SIZE;
    drawTurns();
  }

  function drawTurns() {
    const numbers = [...turns.keys()];
    earlier.hidden = numbers.length <= shown;
    articles.clear();
    setChildren(list);
    drawInOrder(numbers.slice(-shown).map((number) => turns.get(number)), visits, (turn) => drawTurn(turn.turn), drawDivider);
  }

  function drawTurn(number) {
    const isNearEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 80;
    const turn = turns.get(number);
    if (!articles.has(number)) {
      articles.set(number, createElement("article", { class: "turn" }));
      list.append(articles.get(number));
    }
    updateStream(turn);
    const stream = streams.get(number);
    articles.get(number).className = `turn ${turn.status}${turn.excluded ? " excluded" : ""}`;
    articles.get(number).dataset.turn = number;
    setChildren(articles.get(number), renderInput(session, turn), renderTurnActivity(session, turn, true), renderReply(session, turn, stream), renderFooter(turn));
    composer.busy([...turns.values()].some((each) => each.status === "open"));
    if (isNearEnd) scroll.scrollTop = scroll.scrollHeight;
  }

  function updateStream(turn) {
    const isWaiting = turn.status === "open" || turn.status === "queued";
    if (isWaiting && !streams.has(turn.turn) && streams.size < 2) {
      const stream = watchTurn(session, turn.turn, () => keepAtEnd());
      streams.set(turn.turn, stream);
    } else if (!isWaiting && streams.has(turn.turn)) {
      streams.get(turn.turn).close();
      streams.delete(turn.turn);
      for (const other of turns.values()) if (other.status === "open") updateStream(other);
    }
  }

  function keepAtEnd() {
    if (scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120) scroll.scrollTop = scroll.scrollHeight;
  }

  function renderFooter(turn) {
    const parts = [createElement("a", { class: "turn-link", href: linkToTimeline(session, turn.turn), title: "Where the time of this turn went" }, `turn ${turn.turn}`)];
    if (turn.status !== "completed") parts.push(createElement("span", { class: `badge ${turn.status}` }, turn.status));
    if (turn.excluded) parts.push(createElement("span", { class: "badge excluded" }, "excluded"));
    if (turn.purged) parts.push(createElement("span", { class: "badge excluded" }, "purged"));
    for (const { rule, action, count } of turn.findings ?? []) parts.push(createElement("span", { class: "badge excluded", title: "What a rule of the blueprint found in what was submitted" }, `${rule}: ${count} ${action === "mask" ? "masked" : "noted"}`));
    if (turn.redacted) parts.push(createElement("span", { class: "badge redacted", title: turn.reason }, "redacted"));
    if (turn.text_withheld) parts.push(createElement("span", { class: "badge redacted", title: turn.text_withheld }, "text redacted"));
    if (turn.fallback) parts.push(createElement("span", { class: "badge failed", title: describeFailure(turn.fallback) }, "no model's"), createElement("span", { class: "faint" }, describeFailure(turn.fallback)));
    if (turn.finish === "length") parts.push(createElement("span", { class: "badge length" }, "cut at the model's limit"));
    return createElement("footer", {}, parts, renderCallLines(session, turn, markedCall), renderTurnActions(session, turn, isSealed));
  }

  return {
    element, load: loadHistory, apply: applyEvent,
    listPhases: () => [...new Set(visits.flatMap(({ phase, shared = [], hidden = [] }) => [phase, ...shared, ...hidden]))],
    listTurns: () => [...turns.keys()],
    findTurn: (number) => turns.get(number),
    title: () => turns.values().next().value?.text,
    setCalls: (calls) => {
      for (const turn of turns.values()) {
        const callsOfTurn = calls.filter((call) => call.turn === turn.turn);
        const isUnchanged = JSON.stringify(callsOfTurn) === JSON.stringify(turn.calls ?? []);
        turn.calls = callsOfTurn;
        if (!isUnchanged && articles.has(turn.turn)) drawTurn(turn.turn);
      }
    },
    markCall: (call) => {
      if (call === markedCall) return;
      const marked = [markedCall, call];
      markedCall = call;
      for (const number of articles.keys()) if (turns.get(number).calls?.some((each) => marked.includes(each.call))) drawTurn(number);
      const marking = element.querySelector(".why.here");
      if (marking) scrollIntoSight(marking.closest(".turn"));
    },
    close: () => streams.forEach((stream) => stream.close()),
  };
}

const TURN_STARTS = ["turn-submitted", "turn-queued", "turn-released"];
const FOLDS = {
  ...ACTIVITY_FOLDS,
  "turn-submitted": (data) => ({ turn: data.turn, role: data.role ?? "user", status: "open", text: readContent(data.text), parts: data.parts, findings: data.findings, reply: null }),
  "turn-queued": (data) => ({ turn: data.turn, status: "queued", text: readContent(data.text), parts: data.parts, findings: data.findings, reply: null }),
  "turn-released": () => ({ status: "open" }),
  "attempt-started": (data) => ({ attempt: data.attempt, partial: null, reply_parts: [] }),
  "attempt-ended": (data, before) => (isLatestAttempt(data, before) ? { partial: readContent(data.partial), reply_parts: data.parts } : {}),
  "turn-completed": (data) => ({ status: "completed", reply: readContent(data.text), reply_parts: data.parts, finish: data.finish, fallback: data.fallback?.code }),
  "turn-failed": (data) => ({ status: "failed", reason: data.code, detail: data.detail, ...readCutReply(data) }),
  "turn-cancelled": (data) => ({ status: "cancelled", reason: data.reason, ...readCutReply(data) }),
  "turn-excluded": () => ({ excluded: true }),
  "turn-restored": () => ({ excluded: false }),
  "reply-redacted": (data, before) => ({ status: isCut(before) ? before.status : "completed", redacted: true, reply: readContent(data.replacement), reason: data.reason, partial: null, cut_line: null, reply_parts: [] }),
  "text-redacted": (data, before) => ({ text: before.text === null ? null : readContent(data.replacement), text_withheld: data.reason, parts: data.spans?.length ? before.parts : [] }),
};

const isCut = (turn) => turn.status === "failed" || turn.status === "cancelled";

const isLatestAttempt = (data, { attempt, cut_line, redacted }) => (attempt === undefined || attempt === data.attempt) && !cut_line && !redacted;

// What prompts include as the reply of a turn that was cut: what was shown of it, and a line that says so.
function readCutReply({ cut_reply, shown = 0 }) {
  const characters = [...(readContent(cut_reply) ?? "")];
  if (!characters.length) return {};
  const partial = characters.slice(0, shown).join("");
  return { ...(partial ? { partial } : {}), cut_line: characters.slice(shown).join("").trim() };
}

export function renderInput(session, turn) {
  if (turn.text === null || turn.text === undefined) return null;
  return createElement("div", { class: `bubble input${turn.role === "system" ? " faint" : ""}` }, turn.text ? renderFoldedText(`${session} turn ${turn.turn} input`, turn.text) : null, renderParts(turn.parts));
}

function renderPartial(session, turn) {
  if (!turn.partial && !turn.cut_line) return null;
  return [
    turn.partial ? renderFoldedText(`${session} turn ${turn.turn} partial`, turn.partial, { class: "answer-text partial" }) : null,
    renderParts(turn.reply_parts),
    turn.cut_line ? createElement("p", { class: "faint", title: "Later prompts include the turn, with this line" }, turn.cut_line) : null,
  ];
}

function renderWholeReply(session, turn) {
  return createElement("div", { class: `bubble reply${turn.redacted ? " redacted" : ""}` }, renderFoldedText(`${session} turn ${turn.turn} reply`, turn.reply ?? "(sealed)"), renderParts(turn.reply_parts));
}

export function renderReply(session, turn, stream) {
  if (turn.role === "system") return createElement("div", { class: "faint" }, "system");
  if (turn.redacted) return renderWholeReply(session, turn);
  switch (turn.status) {
    case "completed": return renderWholeReply(session, turn);
    case "failed": return createElement("div", { class: "bubble reply fault" }, renderPartial(session, turn), renderFailure(`${session} turn ${turn.turn}`, turn.reason, turn.detail));
    case "cancelled": return createElement("div", { class: "bubble reply given-up" }, renderPartial(session, turn), describeCancel(turn.reason));
    default: return stream?.element ?? createElement("div", { class: "bubble reply waiting" }, "waits");
  }
}
