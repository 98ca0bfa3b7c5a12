// The differences between two calls: what was added, removed or changed, and which event caused it.

import { createElement, setChildren } from "../app/dom.js";
import { formatCount, formatMoney, formatNumber } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { linkToDiff } from "../app/links.js";
import { formatTurnRange, renderEventLinks } from "../events/event_links.js";
import { formatSource } from "./prompt_parts.js";
import { formatVote, renderVotes } from "./votes.js";

const SIGNS = { added: "+", removed: "−", changed: "~", shrunk: "▾", grown: "▴", moved: "⇄" };
const CAUSE_TEXTS = {
  said: "the turn's message", answered: "answered", failed: "it failed", cancelled: "cancelled", excluded: "excluded",
  restored: "restored", redacted: "a reply or a text was redacted", told: "already described", choice: "a choice", phase: "the phase",
  attribute: "an attribute", resolved: "the resolved reference", retrieved: "what was retrieved", voted: "the votes on it",
  called: "a tool call", returned: "a tool result",
  pinned: "what was pinned", override: "the user's own prompts", asked: "tools asked for in full", library: "the library",
  variant: "the chosen variant", blueprint: "the blueprint", budget: "the budget", room: "space taken by other parts",
  limit: "later turns", time: "expired by the clock of", kind: "the kind of call", profile: "the profile", model: "the model",
  assembler: "the assembler", summarised: "summed up", undone: "a summary was undone", purged: "the memory was purged",
  counted: "the provider's count of tokens", refused: "the provider refused a longer prompt", cut: "an earlier call's cut lasts", unknown: "no recorded cause",
};

export function createDiffView(session) {
  const body = createElement("div", { class: "scroll" });
  const selector = createElement("form", { class: "pick" });
  const element = createElement("div", { class: "audit difference" }, selector, body);
  let shown = null;

  async function showCalls(before, after, other, calls) {
    drawCallSelector(before, after, other, calls);
    const comparison = `${before} ${after} ${other ?? ""}`;
    if (comparison === shown) return;
    shown = comparison;
    setChildren(body, createElement("p", { class: "faint" }, "comparing …"));
    try {
      const diff = await fetchJson(buildSessionPath(session, "calls", before, "diff", after), { other: other || null });
      if (comparison === shown) setChildren(body, renderDiff(diff));
    } catch (problem) {
      if (comparison === shown) setChildren(body, createElement("p", { class: "fault" }, problem.message));
    }
    body.scrollTop = 0;
  }

  function drawCallSelector(before, after, other, calls) {
    const createSelect = (chosen, label) => createElement("select", { "aria-label": label, on: { change: openComparison } },
      calls.map(({ call }) => createElement("option", { value: call, selected: call === chosen }, `call ${call}`)));
    const first = createSelect(before, "from");
    const second = other
      ? createElement("input", { "aria-label": "to", value: after, size: 6, on: { change: openComparison } })
      : createSelect(after, "to");
    const otherSession = createElement("input", { "aria-label": "of session", placeholder: "of another session", value: other ?? "", on: { change: openComparison } });
    function openComparison() {
      location.hash = linkToDiff(session, first.value, second.value, otherSession.value.trim());
    }
    selector.onsubmit = (event) => { event.preventDefault(); openComparison(); };
    setChildren(selector, "from ", first, " to ", second, otherSession);
  }

  function renderDiff(diff) {
    return [renderSummary(diff), diff.changes.length ? createElement("h2", { class: "unseen" }, "changes") : null, diff.changes.map((change, place) => renderChange(change, place === diff.prefix.change, session)), renderComponents(diff), renderPrefix(diff)];
  }

  return { element, show: showCalls };
}

const formatSigned = (number, thing) => `${number > 0 ? "+" : number ? "−" : "±"}${formatCount(Math.abs(number), thing)}`;

function renderSummary({ before, after, same, tokens, micro_dollars: cost, guessed }) {
  const formatCall = (facts) => `${facts.kind} · ${facts.model} · ${formatCount(facts.tokens, "token")}${facts.budget ? ` of ${formatNumber(facts.budget)}` : ""}${facts.micro_dollars === null ? "" : ` · ${formatMoney(facts.micro_dollars, facts.guessed)}`}`;
  const costChange = cost === null ? "" : cost ? ` · ${cost > 0 ? "+" : "−"}${formatMoney(Math.abs(cost), guessed)}` : " · at the same cost";
  return createElement("div", { class: "proof" },
    createElement("div", {}, createElement("strong", {}, `− ${before.call}`), createElement("span", { class: "faint" }, ` ${formatCall(before)}`)),
    createElement("div", {}, createElement("strong", {}, `+ ${after.call}`), createElement("span", { class: "faint" }, ` ${formatCall(after)}`)),
    createElement("div", { class: "verdict sum" }, same ? "identical requests" : formatSigned(tokens, "token") + costChange));
}

function renderChange(change, isPrefixEnd, session) {
  const place = change.first ? formatTurnRange(change.first, change.last) : formatSource((change.after ?? change.before)?.source);
  const rule = change.rule ? ` · ${change.after?.rule === change.rule || change.what !== "added" ? "by" : "before:"} ${change.rule}` : "";
  const size = change.tokens === null ? formatSigned(change.characters, "character") : formatSigned(change.tokens, "token");
  return createElement("article", { class: `origin change ${change.what}` },
    createElement("h3", {}, createElement("span", { class: "sign" }, SIGNS[change.what]), createElement("span", { class: "layer" }, change.layer),
      change.item ? ` ${change.item}` : "", createElement("span", { class: "faint" }, ` ${change.what} · ${place}${rule}`),
      createElement("span", { class: "size faint" }, size)),
    change.because.map((each) => [
      createElement("p", {}, CAUSE_TEXTS[each.what] ?? each.what, each.by.length ? ": " : "", renderEventLinks(each.by, session)),
      (each.votes ?? []).map(renderEntryVotes),
    ]),
    isPrefixEnd ? createElement("p", { class: "ends" }, "here the common prefix ends") : null);
}

function renderEntryVotes({ collection, entry, feedback, votes, more_votes: more }) {
  return createElement("p", { class: "faint" }, `${collection}/${entry} ${formatVote(feedback)}: `, renderVotes(votes, more));
}

function renderComponents({ components: shares }) {
  const largest = Math.max(1, ...shares.flatMap((share) => [share.before, share.after]));
  const bar = (tokens) => {
    const fill = createElement("i");
    fill.style.width = `${(tokens / largest) * 100}%`;
    return createElement("td", { class: "bar" }, fill);
  };
  return createElement("table", { class: "components" }, createElement("tbody", {}, shares.map((share) => createElement("tr", {},
    createElement("td", {}, share.component), createElement("td", { class: "number" }, formatNumber(share.before)), bar(share.before),
    createElement("td", { class: "number" }, formatNumber(share.after)), bar(share.after),
    createElement("td", { class: "number faint" }, share.after === share.before ? "" : formatSigned(share.after - share.before, "token"))))));
}

function renderPrefix({ before, prefix: shared }) {
  const ended = shared.ended_by ? ` · up to ${shared.ended_by}` : " · all of it";
  return createElement("p", { class: "faint" }, `begins as call ${before.call} did: ${formatCount(shared.messages, "message")}, ${formatCount(shared.tokens, "token")}${ended}`);
}
