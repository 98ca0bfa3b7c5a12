// The start of a phase in a conversation: visible and hidden phases, and the text carried over.

import { make } from "/page/dom.js";
import { said } from "/page/words.js";

export function threshold({ phase, before, carried, shared = [], hidden = [] }) {
  const others = shared.filter((each) => each !== phase);
  const bounds = [others.length ? `sees ${others.join(", ")}` : null, hidden.length ? `does not see ${hidden.join(", ")}` : null];
  return make("div", { class: "threshold", "data-phase": phase },
    make("strong", {}, phase), make("span", { class: "faint" }, [before ? `after ${before}` : null, ...bounds].filter(Boolean).join(" · ")),
    carried ? make("p", {}, carried) : null);
}

// Builds a phase visit, as `/history` returns it, from the event that begins it.
export const stayOf = ({ sequence, data }) => ({ ...data, first: sequence, carried: data.carried ? said(data.carried) : null, turns: [] });

// Draws the turns in order, with a divider before each phase.
export function inOrder(turns, stays, draw, divide) {
  const known = new Map(turns.map((turn) => [turn.turn, turn]));
  if (!stays.length) turns.forEach(draw);
  for (const stay of stays) {
    const own = stay.turns.filter((number) => known.has(number));
    if (own.length || stay === stays.at(-1)) divide(stay);
    own.forEach((number) => draw(known.get(number)));
  }
}
