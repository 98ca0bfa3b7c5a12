// Where the time of a turn went: its calls, attempts, tools and waits, each a bar on one scale. The bars
// and their times are those of the public route; nothing is computed here but percentages.

import { createElement, setChildren } from "../app/dom.js";
import { renderFigures } from "../app/figures.js";
import { formatDateTime, formatDuration, formatOneLine } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { linkToCall, linkToEvent, linkToTimeline } from "../app/links.js";
import { findFailureReason } from "../session/turn_activity.js";
import { describeFailure } from "./failure_rendering.js";

const REFRESH_MS = 2000;
const TICKS = 4;

// `findTurn` returns a turn of the conversation, `listTurns` their numbers.
export function createTimelineView(session, findTurn, listTurns) {
  const chooser = createElement("nav", { class: "turn-choice", "aria-label": "Turns" });
  const body = createElement("div", { class: "scroll" });
  const element = createElement("div", { class: "timeline" }, chooser, body);
  let shown = null;
  let requests = 0;
  let timer = null;

  async function showTurn(number, calls) {
    drawChooser(number);
    if (number !== shown) setChildren(body, createElement("p", { class: "faint" }, "measuring …"));
    shown = number;
    const request = (requests += 1);
    try {
      const timeline = await fetchJson(buildSessionPath(session, "turns", number, "timeline"));
      if (request !== requests) return;
      setChildren(body, renderTimeline(session, timeline, findTurn(number), calls));
      keepGoing(timeline, calls);
    } catch (problem) {
      if (request === requests) setChildren(body, createElement("p", { class: "fault" }, [problem.message, problem.fix].filter(Boolean).join(" · ")));
    }
  }

  // What lasts grows; events of the turn draw it at once.
  function keepGoing({ length_ms: length }, calls) {
    clearTimeout(timer);
    if (length !== null) return;
    timer = setTimeout(() => { if (element.isConnected && !document.hidden) showTurn(shown, calls); }, REFRESH_MS);
  }

  function drawChooser(number) {
    const numbers = listTurns();
    const place = numbers.indexOf(number);
    const link = (other, text, title) => createElement("a", { href: other ? linkToTimeline(session, other) : null, title, "aria-label": title }, text);
    setChildren(chooser, link(numbers[place - 1], "‹", "The turn before"), createElement("strong", {}, `turn ${number}`), link(numbers[place + 1], "›", "The next turn"),
      createElement("span", { class: "faint" }, findTurn(number)?.text ?? ""));
  }

  return { element, show: showTurn };
}

function renderTimeline(session, timeline, turn, calls) {
  const scale = Math.max(1, timeline.elapsed_ms);
  return [
    createElement("h2", {}, timeline.length_ms === null ? `${formatDuration(timeline.elapsed_ms)} so far` : formatDuration(timeline.length_ms), " ",
      renderFigures([`from ${formatDateTime(timeline.begun_at)}`, turn?.status], { class: "faint" })),
    createElement("div", { class: "spans", role: "list" }, renderScale(scale), groupSpans(timeline.spans).map((row) => renderSpan(session, row, scale, calls, turn))),
    renderKey(timeline.spans),
  ];
}

function renderScale(scale) {
  const ticks = Array.from({ length: TICKS + 1 }, (_, place) => (scale / TICKS) * place);
  return createElement("div", { class: "span scale", "aria-hidden": "true" }, createElement("span", { class: "what" }),
    createElement("span", { class: "track" }, ticks.slice(0, -1).map((tick) => place(createElement("span", { class: "tick" }, formatDuration(Math.round(tick))), tick / scale))));
}

// What a call consists of stands below it, one step further in. A call of one attempt needs no second
// bar for the same time.
function groupSpans(spans) {
  const rows = [];
  for (const span of spans.filter((each) => each.call === null)) rows.push({ ...span, depth: 0 });
  for (const call of spans.filter((each) => each.kind === "call")) {
    const parts = spans.filter((each) => each.call === call.call && each.kind !== "call");
    const attempts = parts.filter((each) => each.kind === "attempt");
    rows.push(...parts.filter((each) => each.kind === "preparing").map((each) => ({ ...each, depth: 0 })));
    rows.push({ ...call, depth: 0, step: parts.find((each) => each.step !== null)?.step ?? null });
    const hasStory = attempts.length > 1 || attempts.some((each) => each.fault);
    rows.push(...parts.filter((each) => each.kind !== "preparing" && (hasStory || !["attempt", "waiting"].includes(each.kind))).map((each) => ({ ...each, depth: 1 })));
  }
  return rows;
}

const KIND_TEXTS = {
  queued: "in the queue", unclaimed: "until a worker took it", preparing: "preparing", waiting: "waiting", approval: "approval",
};
const KIND_TITLES = {
  queued: "behind an earlier turn", unclaimed: "no worker had the turn yet", preparing: "until the first request: opening tools, asking a resolver, assembling the prompt",
  call: "from its first request to the end of its last attempt", attempt: "from the request to its end", waiting: "between two attempts", tool: "as its server took", approval: "for a person's decision",
};

function renderSpan(session, span, scale, calls, turn) {
  const name = formatSpanName(span, calls);
  const time = formatSpanTime(span);
  const outcome = ["answered", "accepted", "approved", null].includes(span.outcome) ? null : span.outcome;
  const reason = span.kind === "call" ? null : findReason(span, turn);
  const bar = createElement("a", { class: "bar", href: linkToEvent(session, span.sequence), "aria-label": `${name}: event ${span.sequence} in the record`,
    title: `${KIND_TITLES[span.kind]} · from ${formatDuration(span.offset_ms)} · event ${span.sequence}` });
  const isLasting = span.length_ms === null && span.outcome === null;
  const length = isLasting ? scale - span.offset_ms : span.length_ms ?? 0;
  bar.style.left = `${Math.min(100, (span.offset_ms / scale) * 100)}%`;
  bar.style.width = `${Math.max(0, (length / scale) * 100)}%`;
  return createElement("div", { class: `span kind-${span.kind} depth-${span.depth}${isLasting ? " lasting" : ""}${outcome ? " faulty" : ""}`, role: "listitem" },
    createElement("span", { class: "what" }, span.call === null ? createElement("span", {}, name) : createElement("a", { href: linkToCall(session, span.call), title: `The prompt of call ${span.call}, and what it answered` }, name),
      renderFigures([time, outcome], { class: "faint" })),
    createElement("span", { class: "track" }, bar),
    reason ? createElement("span", { class: "why-failed" }, reason) : null);
}

// Why an attempt or a tool failed; the call of a failed attempt has it in its attempts.
function findReason(span, turn) {
  if (span.fault) return describeFailure(span.fault);
  if (span.kind !== "tool") return null;
  const use = (turn?.tools ?? []).find((each) => each.call === span.call && each.tool === span.name && each.outcome === span.outcome);
  return use ? formatOneLine(findFailureReason(use).split("\n")[0]) : null;
}

function formatSpanName(span, calls) {
  if (span.kind === "call") {
    const kind = calls.find((each) => each.call === span.call)?.kind;
    return [`call ${span.call}`, kind, span.step === null ? null : `for step ${span.step}`].filter(Boolean).join(" ");
  }
  if (span.kind === "tool") return span.name;
  if (span.kind === "attempt" || span.kind === "approval") return `${span.kind} ${span.name}`;
  return KIND_TEXTS[span.kind];
}

function formatSpanTime({ kind, length_ms: length, outcome }) {
  if (length !== null) return formatDuration(length);
  if (outcome === null) return kind === "approval" ? "waits for a decision" : "is under way";
  return kind === "call" ? null : "not measured";
}

function place(element, share) {
  element.style.left = `${share * 100}%`;
  return element;
}

function renderKey(spans) {
  const kinds = new Set(spans.map((span) => span.kind));
  const texts = { call: "call or attempt", tool: "tool", waiting: "waiting for another attempt", approval: "waiting for a person", preparing: "before a request", unclaimed: "no worker yet", queued: "in the queue" };
  return createElement("ul", { class: "legend" }, Object.entries(texts).filter(([kind]) => kinds.has(kind)).map(([kind, text]) => createElement("li", { class: `kind-${kind}` }, createElement("b", {}), text)));
}
