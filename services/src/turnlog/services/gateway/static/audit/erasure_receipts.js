// What an erasure reaches, in words: of a plan, and of the receipts of a session.

import { createElement } from "../app/dom.js";
import { formatCount, formatDateTime } from "../app/formatting.js";
import { linkToCall, linkToEvent, linkToSession, linkToTimeline } from "../app/links.js";

const PARTS = { text: "what was submitted with turn", work: "what came of turn", turn: "turn" };

const STATUSES = {
  erased: ["good", "✓", "nobody can open what it reached"],
  begun: ["wary", "–", "it waits, and goes on by itself once the open turn of a fork or a child has ended"],
  incomplete: ["bad", "✗", "the checking pass could open words that should be gone"],
};

export function renderErasures({ erasures }) {
  if (!erasures.length) return null;
  return [createElement("h2", {}, "erasures"), erasures.map(renderReceipt)];
}

function renderReceipt({ session, erasure, at, by, reason, status, sessions, kept_elsewhere: kept }) {
  const [mark, sign, meaning] = STATUSES[status];
  return createElement("section", { class: "receipt", "aria-label": `erasure of event ${erasure}` },
    createElement("p", { class: `verdict ${mark}` }, `${sign} ${status}`, createElement("span", { class: "faint" }, ` · ${meaning}`)),
    createElement("p", {}, createElement("a", { href: linkToEvent(session, erasure) }, `event ${erasure}`), `, ${formatDateTime(at)}, by ${by}: ${reason}`),
    sessions.map(renderReach),
    createElement("p", { class: "faint" }, `Not reached: ${kept.join("; ")}.`));
}

export function renderReach({ session, turns, events, calls, repeating_turns: repeating, generation, ended_at: endedAt, left }) {
  const what = turns.length ? turns.map(({ turn, of }) => `${PARTS[of]} ${turn}`).join(", ") : "all words";
  return createElement("p", {},
    createElement("a", { href: linkToSession(session) }, session), `: ${what}. `,
    calls.length
      ? [`The prompts of ${formatCount(calls.length, "call")} had it and cannot be read or reproduced any more: `, joinLinks(calls, (call) => [linkToCall(session, call), call]), `; ${formatCount(events.length, "event")} in all. `]
      : `${formatCount(events.length, "event")} in all, and no prompt. `,
    repeating.length ? ["Replies that stay may repeat it: ", joinLinks(repeating, (turn) => [linkToTimeline(session, turn), `turn ${turn}`]), ". "] : null,
    generation ? `A back-up of the keys from before ${formatDateTime(endedAt)} opens it until generation ${generation} of the keyring is retired. ` : null,
    left.length ? createElement("strong", { class: "bad" }, `Still readable: ${formatCount(left.length, "event")}.`) : null);
}

const joinLinks = (items, build) => items.flatMap((item, place) => {
  const [href, text] = build(item);
  return [place ? ", " : null, createElement("a", { href }, text)];
});
