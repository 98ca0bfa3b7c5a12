// What a turn did before its reply: the steps of its plan and the tools of each step. A tool links to the
// prompt of its call, because no other view shows that call.

import { createElement } from "../app/dom.js";
import { formatCount, formatDuration, formatOneLine, readContent } from "../app/formatting.js";
import { buildSessionPath } from "../app/http_client.js";
import { linkToCall } from "../app/links.js";

const MAX_CHARACTERS = 2000;

export function renderTurnActivity(session, turn) {
  const { steps = [], tools = [] } = turn;
  if (!steps.length && !tools.length) return null;
  const renderToolsOf = (step) => tools.filter((use) => (use.step ?? null) === step).map((use) => renderToolUse(session, use));
  return createElement("div", { class: "work" },
    createElement("ol", {}, steps.map((step) => createElement("li", { value: step.step }, step.goal ?? "(sealed)",
      step.given ? createElement("span", { class: "faint" }, " · done in the previous turn") : null, renderToolsOf(step.step)))),
    renderToolsOf(null));
}

function renderToolUse(session, use) {
  const size = use.characters ? `${formatCount(use.characters, "character")}${use.condensed ? ", condensed" : ""}` : null;
  const duration = (use.milliseconds ?? null) === null ? null : formatDuration(use.milliseconds);
  const facts = [use.outcome ?? "is under way", formatOneLine(use.detail ?? ""), size, duration].filter(Boolean).join(" · ");
  return createElement("details", { class: `use ${use.outcome ?? "open"}` },
    createElement("summary", {}, createElement("a", { href: linkToCall(session, use.call), title: `The prompt of call ${use.call}, which used the tool` }, use.tool),
      createElement("code", {}, formatOneLine(use.arguments)), createElement("span", { class: "faint" }, facts)),
    createElement("pre", {}, (use.text ?? "(not in prompts)").slice(0, MAX_CHARACTERS)),
    use.condensed ? createElement("a", { href: buildSessionPath(session, "calls", use.call, "tools", use.id), target: "_blank" }, "the whole result") : null);
}

const applyToolResult = (turn, data) => ({ tools: (turn.tools ?? []).map((use) => (use.call === data.call && use.id === data.id
  ? { ...use, outcome: data.outcome, detail: data.detail, text: data.text ? readContent(data.text) : null, characters: data.characters ?? 0,
    condensed: data.treatment === "condensed", milliseconds: data.milliseconds }
  : use)) });

export const ACTIVITY_FOLDS = {
  "step-planned": (data, turn) => ({ steps: [...(turn.steps ?? []), { step: data.step, goal: readContent(data.goal), given: (data.given ?? null) !== null }] }),
  "tool-called": ({ call, id, tool, arguments: given, step }, turn) => ({ tools: [...(turn.tools ?? []), { call, id, tool, arguments: given, step }] }),
  "tool-returned": (data, turn) => applyToolResult(turn, data),
};
