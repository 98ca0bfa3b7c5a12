// What a call retrieved: every entry that was found, with its scores and what became of it.

import { createElement } from "../app/dom.js";
import { renderFigures } from "../app/figures.js";
import { formatCount } from "../app/formatting.js";
import { linkToEvent } from "../app/links.js";
import { findEvents } from "../turn/turn_events.js";
import { formatVote, renderVotes } from "./votes.js";

const OUTCOME_TEXTS = {
  taken: "taken", score: "below the least confidence", efficiency: "below the least efficiency",
  feedback: "more votes against it than for it", rank: "enough better ones", tokens: "no room within the token limit",
};

const POLICY_TEXTS = {
  answer: "nothing was taken, and the model was asked without", refuse: "nothing was taken, and the turn was refused",
  reply: "nothing was taken, and the blueprint's reply was given",
};

export function renderRetrievals(session, call, events) {
  return findEvents(events, "knowledge-retrieved", { call }).map((event) => renderRetrieval(session, event));
}

function renderRetrieval(session, { sequence, data }) {
  const candidates = data.candidates ?? [];
  const { limits } = data;
  const figures = [
    `from ${data.collections.join(", ")}`, `at most ${limits.k}`, limits.tokens ? formatCount(limits.tokens, "token") : null,
    data.embedder || null, data.reranker ? `ranked by ${data.reranker}` : null,
  ];
  return createElement("section", { class: "retrieved", "aria-label": `What ${data.retrieval} retrieved` },
    createElement("h2", {}, `retrieved for ${data.retrieval} `, renderFigures(figures, { class: "faint" })),
    renderSituation(data),
    renderQueries(data),
    candidates.length ? renderCandidates(candidates) : null,
    createElement("p", { class: "faint" }, createElement("a", { href: linkToEvent(session, sequence) }, `event ${sequence}`)));
}

function renderSituation(data) {
  if (data.unavailable) return createElement("p", { class: "wary" }, `not searched: ${data.unavailable}`);
  const policy = POLICY_TEXTS[data.nothing_found];
  return policy ? createElement("p", { class: "wary" }, policy) : null;
}

function renderQueries({ query, more_queries: others = [], origin, query_call: call }) {
  if (!others.length && !call) return null;
  const writer = origin === "call" ? `queries of call ${call}` : call ? `call ${call} gave no queries` : null;
  return createElement("div", {},
    writer ? createElement("p", { class: "faint" }, writer) : null,
    createElement("ol", { "aria-label": "queries" }, [query, ...others].map((each) =>
      createElement("li", { class: "faint" }, each.text ?? "withheld"))));
}

function renderCandidates(candidates) {
  const heads = ["entry", "confidence", "score", "outcome"];
  return createElement("table", {},
    createElement("thead", {}, createElement("tr", {}, heads.map((head) => createElement("th", { scope: "col" }, head)))),
    createElement("tbody", {}, candidates.map(renderCandidate)));
}

function renderCandidate(candidate) {
  const isTaken = candidate.outcome === "taken";
  return createElement("tr", { class: isTaken ? null : "faint" },
    createElement("th", { scope: "row" }, candidate.title || candidate.entry, createElement("small", { class: "faint" }, describeCandidate(candidate)),
      candidate.votes ? createElement("small", { class: "faint" }, renderVotes(candidate.votes, candidate.more_votes)) : null),
    createElement("td", { class: "number" }, formatScore(candidate.confidence)),
    createElement("td", { class: "number", title: describeScores(candidate) }, formatScore(candidate.score)),
    createElement("td", {}, OUTCOME_TEXTS[candidate.outcome] ?? candidate.outcome));
}

function describeCandidate({ collection, entry, revision, efficiency, feedback, tokens, found_by: found }) {
  return [
    `${collection}/${entry}`, found?.length ? `found by query ${found.map((each) => each.query).join(", ")}` : null, `revision ${revision}`, efficiency === undefined ? null : `efficiency ${formatScore(efficiency)}`,
    feedback ? `votes ${formatVote(feedback)}` : null, tokens ? formatCount(tokens, "token") : null,
  ].filter(Boolean).join(" · ");
}

function describeScores({ lexical, vector, fused }) {
  return [
    lexical === undefined ? null : `words ${formatScore(lexical)}`, vector === undefined ? null : `vector ${formatScore(vector)}`, `joined ${formatScore(fused)}`,
  ].filter(Boolean).join(" · ");
}

const formatScore = (value) => (value === null || value === undefined ? "" : value.toFixed(2));
