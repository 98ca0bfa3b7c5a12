// What a turn did before its reply: the steps of its plan and the tools of each step. A tool links to the
// prompt of its call, because no other view shows that call.

import { renderApprovalActions } from "../approvals/approval_decisions.js";
import { createElement, setChildren } from "../app/dom.js";
import { renderFigures } from "../app/figures.js";
import { renderDetails, renderFoldedText } from "../app/folding.js";
import { formatCount, formatDuration, formatOneLine, readContent } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { linkToCall, linkToSession } from "../app/links.js";
import { renderParts } from "./media_parts.js";

export function renderTurnActivity(session, turn, isLive = false) {
  const { steps = [], tools = [] } = turn;
  if (!steps.length && !tools.length) return null;
  const renderToolsOf = (step) => tools.filter((use) => (use.step ?? null) === step).map((use) => renderToolUse(session, use, isLive ? turn.turn : null));
  return createElement("div", { class: "work" },
    createElement("ol", {}, steps.map((step) => createElement("li", { value: step.step }, step.goal ?? "(sealed)",
      step.given ? createElement("span", { class: "faint" }, " · done in the previous turn") : null, renderToolsOf(step.step)))),
    renderToolsOf(null));
}

// `turn` is the number of a turn that may be decided about; null where an earlier event is looked at.
export function renderToolUse(session, use, turn) {
  const isWaiting = Boolean(use.approval) && !use.approval.decision && !use.outcome;
  const key = `${session} tool ${use.call} ${use.id}`;
  const reason = findFailureReason(use);
  return renderDetails(key, isWaiting, { class: `use ${use.outcome ?? "open"}` },
    createElement("summary", {}, createElement("a", { href: linkToCall(session, use.call), title: `The prompt of call ${use.call}, which used the tool` }, use.tool),
      createElement("code", {}, formatOneLine(use.arguments)), renderFigures(listToolFigures(use, isWaiting), { class: "faint" }),
      reason ? createElement("span", { class: "reason" }, formatOneLine(reason.split("\n")[0])) : null),
    use.child ? createElement("p", { class: "faint" }, createElement("a", { href: linkToSession(use.child.session) }, `turn ${use.child.turn} of its child session`)) : null,
    isWaiting && turn !== null ? renderApprovalActions(session, turn, use) : null,
    renderToolTexts(key, use, isWaiting),
    renderParts(use.parts),
    use.condensed && use.text ? renderWholeResult(session, use, key) : null);
}

// Whole results that were asked for; they stay when the view is drawn again.
const wholeResults = new Map();

function renderWholeResult(session, use, key) {
  const place = createElement("div", { class: "whole" });
  const button = createElement("button", { type: "button", class: "quiet", "data-key": `${key} whole`, on: { click: load } }, `read the whole result, ${formatCount(use.characters, "character")}`);

  async function load() {
    try {
      const { result } = await fetchJson(buildSessionPath(session, "calls", use.call, "tools", use.id));
      wholeResults.set(key, result);
      draw();
    } catch (problem) {
      setChildren(place, createElement("p", { class: "fault" }, [problem.message, problem.fix].filter(Boolean).join(" · ")));
    }
  }

  function draw() {
    setChildren(place, wholeResults.has(key) ? [createElement("h4", {}, "the whole result"), renderFoldedText(`${key} whole result`, wholeResults.get(key), {}, "pre")] : button);
  }

  draw();
  return place;
}

// Why a tool did not answer. A server that answered with an error said so in its result, which follows
// the request in the text for prompts.
export function findFailureReason({ outcome, detail, text }) {
  if (!["failed", "lost", "refused"].includes(outcome)) return "";
  return detail || (text ?? "").split("\n").slice(1).join("\n").trim().replace(/^failed: /, "");
}

// The arguments as the model wrote them, and what prompts say of the result.
function renderToolTexts(key, use, isWaiting) {
  const section = (name, text) => [isWaiting ? null : createElement("h4", {}, name), renderFoldedText(`${key} ${name}`, text, {}, "pre")];
  return [
    (use.detail ?? "").includes("\n") ? section("what failed", use.detail) : null,
    use.arguments ? section("arguments", use.arguments) : null,
    (use.approval?.edited ?? null) === null ? null : section("arguments as a person edited them, and it ran", use.approval.edited),
    use.outcome ? section("result", use.text ?? "(not in prompts)") : null,
  ];
}

// `answered · 20 characters · 310 ms`
export function listToolFigures(use, isWaiting) {
  const size = use.characters ? `${formatCount(use.characters, "character")}${use.condensed ? ", condensed" : ""}` : null;
  const duration = (use.milliseconds ?? null) === null ? null : formatDuration(use.milliseconds);
  const isEdited = (use.approval?.edited ?? null) !== null;
  return [use.outcome ?? (isWaiting ? `waits for approval ${use.approval.approval}` : "is under way"), isEdited ? "edited arguments" : null, size, duration];
}

const applyToolResult = (turn, data) => ({ tools: (turn.tools ?? []).map((use) => (use.call === data.call && use.id === data.id
  ? { ...use, outcome: data.outcome, detail: data.detail, text: data.text ? readContent(data.text) : null, characters: data.characters ?? 0,
    condensed: data.treatment === "condensed", milliseconds: data.milliseconds, parts: data.parts }
  : use)) });

const setChild = (turn, data) => ({ tools: (turn.tools ?? []).map((use) => (use.call === data.call && use.id === data.id
  ? { ...use, child: { session: data.session, turn: data.child_turn, outcome: data.outcome ?? null } }
  : use)) });

const changeApproval = (turn, data, change) => ({ tools: (turn.tools ?? []).map((use) => (use.call === data.call && use.id === data.id
  ? { ...use, approval: { ...use.approval, ...change } }
  : use)) });

export const ACTIVITY_FOLDS = {
  "approval-requested": (data, turn) => changeApproval(turn, data, { approval: data.approval, deadline: data.deadline }),
  "approval-decided": (data, turn) => changeApproval(turn, data, { decision: data.decision, reason: data.reason ?? "", edited: data.edited ?? null }),
  "child-requested": (data, turn) => setChild(turn, data),
  "child-settled": (data, turn) => setChild(turn, data),
  "step-planned": (data, turn) => ({ steps: [...(turn.steps ?? []), { step: data.step, goal: readContent(data.goal), given: (data.given ?? null) !== null }] }),
  "tool-called": ({ call, id, tool, arguments: given, step }, turn) => ({ tools: [...(turn.tools ?? []), { call, id, tool, arguments: given, step }] }),
  "tool-returned": (data, turn) => applyToolResult(turn, data),
};
