// The start of a phase in a conversation: visible and hidden phases, and the text carried over.

import { createElement } from "../app/dom.js";
import { readContent } from "../app/formatting.js";

export function renderPhaseDivider({ phase, before, carried, shared = [], hidden = [] }) {
  const visiblePhases = shared.filter((each) => each !== phase);
  const limits = [visiblePhases.length ? `sees ${visiblePhases.join(", ")}` : null, hidden.length ? `does not see ${hidden.join(", ")}` : null];
  return createElement("div", { class: "threshold", "data-phase": phase },
    createElement("strong", {}, phase), createElement("span", { class: "faint" }, [before ? `after ${before}` : null, ...limits].filter(Boolean).join(" · ")),
    carried ? createElement("p", {}, carried) : null);
}

// Builds a phase visit, as `/history` returns it, from the event that begins it.
export const buildPhaseVisit = ({ sequence, data }) => ({ ...data, first: sequence, carried: data.carried ? readContent(data.carried) : null, turns: [] });

// Draws the turns in order, with a divider before each phase.
export function drawInOrder(turns, visits, drawTurn, drawDivider) {
  const turnsByNumber = new Map(turns.map((turn) => [turn.turn, turn]));
  if (!visits.length) turns.forEach(drawTurn);
  for (const visit of visits) {
    const numbers = visit.turns.filter((number) => turnsByNumber.has(number));
    if (numbers.length || visit === visits.at(-1)) drawDivider(visit);
    numbers.forEach((number) => drawTurn(turnsByNumber.get(number)));
  }
}
