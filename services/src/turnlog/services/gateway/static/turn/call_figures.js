// The calls of a turn with their tokens, costs and times, as HTTP and `turnlog show` have them.

import { renderFigures } from "../app/figures.js";
import { createElement } from "../app/dom.js";
import { renderDetails } from "../app/folding.js";
import { formatCost, formatCount, formatDuration, formatNumber } from "../app/formatting.js";
import { linkToCall } from "../app/links.js";
import { describeFailure } from "./failure_rendering.js";

// A turn with more calls shows how many they are, and lists them on request.
const MAX_LISTED_CALLS = 4;

export function renderCallLines(session, turn, markedCall) {
  const calls = turn.calls ?? [];
  const lines = calls.map((call) => renderCallLine(session, call, calls.length > 1 ? ` ${call.kind}` : "", call.call === markedCall));
  if (calls.length <= MAX_LISTED_CALLS) return lines;
  const isMarked = calls.some((call) => call.call === markedCall);
  return renderDetails(`${session} turn ${turn.turn} calls`, isMarked, { class: "calls" }, createElement("summary", {}, formatCount(calls.length, "call")), lines);
}

function renderCallLine(session, call, kind, isMarked) {
  return createElement("div", { class: "call-line" },
    createElement("a", { href: linkToCall(session, call.call), class: isMarked ? "why here" : "why", title: "The exact prompt of this call, and what it answered" }, `call ${call.call}${kind}`),
    renderFigures(listCallFigures(call), { class: "faint", title: call.attempts.map(formatAttempt).join("\n") }));
}

export function listCallFigures(call) {
  const isCounted = call.input_tokens !== null && call.output_tokens !== null;
  return [isCounted ? `${formatNumber(call.input_tokens + call.output_tokens)} tokens` : null, formatCost(call.cost), formatTimes(call)];
}

// `3.2 s in 2 attempts, 2.0 s waiting`
export function formatTimes({ times, attempts }) {
  const taken = [times.total_ms === null ? null : formatDuration(times.total_ms), attempts.length > 1 ? `in ${formatCount(attempts.length, "attempt")}` : null];
  const waiting = times.waiting_ms ? `${formatDuration(times.waiting_ms)} waiting` : null;
  return [taken.filter(Boolean).join(" "), waiting].filter(Boolean).join(", ");
}

// `attempt 2 answered · 1.2 s after waiting 2.0 s`
function formatAttempt({ attempt, outcome, fault, total_ms: total, waited_ms: waited }) {
  const taken = total === null ? null : formatDuration(total);
  const before = waited ? `after waiting ${formatDuration(waited)}` : null;
  return [`attempt ${attempt} ${outcome ?? "is running"}${fault ? `: ${describeFailure(fault)}` : ""}`, [taken, before].filter(Boolean).join(" ")].filter(Boolean).join(" · ");
}
