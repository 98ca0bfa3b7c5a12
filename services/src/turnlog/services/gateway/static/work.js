// What a turn did before its reply: the steps of its plan and the tools of each step. A tool links to the
// prompt of its call, because no other view shows that call.

import { toCall } from "/page/address.js";
import { make } from "/page/dom.js";
import { ofSession } from "/page/http.js";
import { said, counted, oneLine, seconds } from "/page/words.js";

const SHOWN = 2000;

export function work(session, turn) {
  const { steps = [], tools = [] } = turn;
  if (!steps.length && !tools.length) return null;
  const of = (step) => tools.filter((use) => (use.step ?? null) === step).map((use) => taken(session, use));
  return make("div", { class: "work" },
    make("ol", {}, steps.map((step) => make("li", { value: step.step }, step.goal ?? "(sealed)",
      step.given ? make("span", { class: "faint" }, " · the turn before had done it") : null, of(step.step)))),
    of(null));
}

function taken(session, use) {
  const size = use.characters ? `${counted(use.characters, "character")}${use.condensed ? ", told in short" : ""}` : null;
  const took = (use.milliseconds ?? null) === null ? null : seconds(use.milliseconds);
  const facts = [use.outcome ?? "is under way", oneLine(use.detail ?? ""), size, took].filter(Boolean).join(" · ");
  return make("details", { class: `use ${use.outcome ?? "open"}` },
    make("summary", {}, make("a", { href: toCall(session, use.call), title: `The prompt of call ${use.call}, which asked for it` }, use.tool),
      make("code", {}, oneLine(use.arguments)), make("span", { class: "faint" }, facts)),
    make("pre", {}, (use.text ?? "(nothing is told of it)").slice(0, SHOWN)),
    use.condensed ? make("a", { href: ofSession(session, "calls", use.call, "tools", use.id), target: "_blank" }, "the whole result") : null);
}

const returned = (turn, data) => ({ tools: (turn.tools ?? []).map((use) => (use.call === data.call && use.id === data.id
  ? { ...use, outcome: data.outcome, detail: data.detail, text: data.text ? said(data.text) : null, characters: data.characters ?? 0,
    condensed: data.treatment === "condensed", milliseconds: data.milliseconds }
  : use)) });

export const WORK = {
  "step-planned": (data, turn) => ({ steps: [...(turn.steps ?? []), { step: data.step, goal: said(data.goal), given: (data.given ?? null) !== null }] }),
  "tool-called": ({ call, id, tool, arguments: given, step }, turn) => ({ tools: [...(turn.tools ?? []), { call, id, tool, arguments: given, step }] }),
  "tool-returned": (data, turn) => returned(turn, data),
};
