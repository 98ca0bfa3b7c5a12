// What a call answered: its text or structured output, the tools it asked for, why the model stopped,
// what each attempt took, and what a guard or an operator withheld of it.

import { createElement } from "../app/dom.js";
import { renderFigures } from "../app/figures.js";
import { renderDetails, renderFoldedText } from "../app/folding.js";
import { formatCost, formatCount, formatDuration, readContent } from "../app/formatting.js";
import { linkToEvent } from "../app/links.js";
import { readReasoning } from "../app/reasoning.js";
import { renderToolUse } from "../session/turn_activity.js";
import { formatTimes } from "./call_figures.js";
import { renderFailure } from "./failure_rendering.js";
import { findAttemptEnds, findCallAnswer, findEvents } from "./turn_events.js";

const FINISH_TEXTS = {
  stop: ["", "the model ended its answer"],
  tool_calls: ["", "the model asked for tools"],
  length: ["wary", "cut at the model's limit of tokens: the text is incomplete"],
  content_filter: ["bad", "cut by a content filter of the provider"],
  safety: ["bad", "stopped for safety"],
  recitation: ["bad", "cut by the provider, because it recites a source"],
};

export function renderCallAnswer(session, call, turn, events) {
  const completed = findCallAnswer(events, call.call);
  const [reply] = findEvents(events, "turn-completed", { call: call.call });
  const ends = findAttemptEnds(events, call.call);
  const uses = (turn.tools ?? []).filter((use) => use.call === call.call);
  const [redaction] = findEvents(events, "reply-redacted");
  return createElement("section", { class: "answer", "aria-label": `What call ${call.call} answered` },
    createElement("h2", {}, "answered ", renderFigures(listAnswerFigures(call, ends), { class: "faint" })),
    renderFinish(call, completed, ends),
    renderRatings(ends),
    redaction ? renderRedaction(session, redaction) : null,
    renderReasoning(session, call, ends),
    renderAnswerText(session, call, completed, reply, events, Boolean(redaction)),
    uses.length ? createElement("div", { class: "asked-tools" }, createElement("h3", {}, formatCount(uses.length, "tool call")), uses.map((use) => renderToolUse(session, use, null))) : null,
    renderAttempts(session, call, ends));
}

function listAnswerFigures(call, ends) {
  const answering = call.attempts.find((each) => each.attempt === call.attempt);
  const reasoning = ends.reduce((sum, { data }) => sum + (data.usage.reasoning_tokens ?? 0), 0);
  return [
    call.input_tokens === null ? null : `${formatCount(call.input_tokens, "token")} sent`,
    sumFigures(call.attempts, "cached_tokens") ? `${formatCount(sumFigures(call.attempts, "cached_tokens"), "token")} cached` : null,
    sumFigures(call.attempts, "cache_write_tokens") ? `${formatCount(sumFigures(call.attempts, "cache_write_tokens"), "token")} put into the cache` : null,
    call.output_tokens === null ? null : `${formatCount(call.output_tokens, "token")} received`,
    reasoning ? formatCount(reasoning, "reasoning token") : null,
    formatCost(call.cost), formatTimes(call),
    (answering?.first_token_ms ?? null) === null ? null : `first text after ${formatDuration(answering.first_token_ms)}`,
  ];
}

const sumFigures = (attempts, name) => attempts.reduce((sum, each) => sum + (each[name] ?? 0), 0);

function renderFinish(call, completed, ends) {
  const finish = completed?.data.finish ?? call.finish;
  if (!finish) return createElement("p", { class: "finish faint" }, isRunning(call, ends) ? "is being answered …" : "no answer");
  const [look, text] = FINISH_TEXTS[finish] ?? ["", finish];
  const repairs = completed?.data.repairs ?? [];
  return createElement("p", { class: `finish ${look}` }, text, createElement("code", { class: "faint" }, ` ${finish}`),
    repairs.length ? createElement("span", { class: "wary" }, ` · repaired before it was read: ${repairs.join(", ")}`) : null);
}

const isRunning = (call, ends) => call.attempts.length > ends.length || !call.attempts.length;

// How the provider rated an answer that its filter cut, in the provider's words.
function renderRatings(ends) {
  const ratings = ends.flatMap(({ data }) => data.ratings ?? []);
  if (!ratings.length) return null;
  return createElement("ul", { class: "ratings" }, ratings.map((rating) => createElement("li", { class: rating.blocked ? "bad" : "faint" },
    [rating.category, rating.probability, rating.severity, rating.blocked ? "blocked" : null].filter(Boolean).join(" · "))));
}

function renderRedaction(session, { sequence, data }) {
  const isGuard = data.rule !== "operator";
  return createElement("div", { class: "withheld" }, createElement("strong", {}, isGuard ? `withheld by the rule ${data.rule}` : "withheld by an operator"), `: ${data.reason} `,
    createElement("a", { href: linkToEvent(session, sequence) }, `event ${sequence}`),
    isGuard ? createElement("p", { class: "faint" }, "What the model wrote is on no page; ", createElement("code", {}, `turnlog withheld ${session} ${data.turn}`), " reads it from the log.") : null,
    createElement("p", {}, "Readers get instead: ", createElement("em", {}, readContent(data.replacement))));
}

// What the model reasoned, folded: it is no part of the answer. A withheld one is no such object.
function renderReasoning(session, call, ends) {
  return ends.map((end) => [end, parseJson(readContent(end.data.reasoning))]).filter(([, fields]) => fields).map(([{ data }, fields]) => {
    const text = readReasoning(fields);
    const key = `${session} call ${call.call} attempt ${data.attempt} reasoning`;
    return renderDetails(key, false, { class: "reasoning" },
      createElement("summary", {}, `the model reasoned · ${formatCount(text.length, "character")}`),
      renderFoldedText(`${key} text`, text, { class: "answer-text faint" }));
  });
}

// The text of a call that the turn goes on from is in the call's own event, that of a reply in the turn's.
function renderAnswerText(session, call, completed, reply, events, isWithheld) {
  const content = completed?.data.text ?? reply?.data.text;
  if (!content) return completed && !isWithheld ? createElement("p", { class: "faint" }, describeLackingText(completed)) : null;
  const key = `${session} call ${call.call} answer`;
  if (isWithheld) return null;
  const text = readContent(content);
  const [plan] = findEvents(events, "plan-made", { call: call.call });
  const value = reply?.data.structured || plan ? parseJson(text) : null;
  if (value === null) return text ? createElement("div", { class: "answer-text" }, renderFoldedText(key, text)) : createElement("p", { class: "faint" }, "no text");
  const title = plan ? `a plan of ${formatCount(plan.data.steps, "step")}` : "structured output, as its schema requires";
  return [createElement("h3", {}, title), renderFoldedText(key, JSON.stringify(value, null, 2), { class: "answer-text" }, "pre")];
}

const describeLackingText = ({ data }) => (data.characters ? `a text of ${formatCount(data.characters, "character")} that became no reply` : "no text");

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

// One line for each attempt, where there was more than one or one failed.
function renderAttempts(session, call, ends) {
  if (call.attempts.length < 2 && call.attempts.every((each) => [null, "answered"].includes(each.outcome))) return null;
  return createElement("div", { class: "attempts" }, createElement("h3", {}, formatCount(call.attempts.length, "attempt")),
    call.attempts.map((attempt) => renderAttempt(session, call, attempt, ends.filter(({ data }) => data.attempt === attempt.attempt).at(-1))));
}

function renderAttempt(session, call, attempt, end) {
  const { outcome, waited_ms: waited, total_ms: total } = attempt;
  const partial = end?.withheldby ? "" : readContent(end?.data.partial);
  return createElement("article", { class: `attempt ${outcome ?? "open"}` },
    createElement("p", {}, end ? createElement("a", { href: linkToEvent(session, end.sequence) }, `attempt ${attempt.attempt}`) : `attempt ${attempt.attempt}`, " ",
      createElement("strong", {}, outcome ?? "is running"), " ",
      renderFigures([waited ? `after ${formatDuration(waited)} waiting` : null, total === null ? null : formatDuration(total), attempt.worker], { class: "faint" })),
    outcome === "lost" ? createElement("p", {}, "Its worker was silent for too long, so another one took the turn. What the provider counted is not known.") : null,
    attempt.fault ? renderFailure(`${session} call ${call.call} attempt ${attempt.attempt}`, attempt.fault, end?.data.fault?.detail, call.finish !== null) : null,
    partial ? [createElement("p", { class: "faint" }, "what it wrote before it ended; no prompt includes it"), renderFoldedText(`${session} call ${call.call} attempt ${attempt.attempt}`, partial, { class: "answer-text partial" })] : null);
}
