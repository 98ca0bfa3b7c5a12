// How the context of a session grows: its calls against their budget, and a row for each, scaled to the largest call,
// with the savings of each rule, and where it stops being the prompt of the call before it.

import { formatComponent, getComponentHue } from "../app/component_hues.js";
import { createElement, setChildren } from "../app/dom.js";
import { renderFigures } from "../app/figures.js";
import { formatCost, formatCostSum, formatCount, formatNumber, formatPercent } from "../app/formatting.js";
import { fetchJson } from "../app/http_client.js";
import { linkToCall } from "../app/links.js";
import { renderBudgetStrip } from "./budget_strip.js";

export function createGrowthView(session) {
  const element = createElement("div", { class: "audit scroll" });
  // Of the last call that is shown or asked for; `null` is no call, and `undefined` nothing yet.
  let shownSequence;

  // The read models lag behind the log, so the request asks for rows up to the last known event.
  async function showCalls(calls) {
    const sequence = calls.at(-1)?.sequence ?? null;
    if (shownSequence === sequence) return;
    shownSequence = sequence;
    try {
      const growth = await fetchJson("/v1/growth", { session, min_sequence: sequence });
      if (shownSequence !== sequence) return;
      setChildren(element, renderGrowth(growth, session));
      if (growth.calls.length) addForecast(growth.calls, sequence);
    } catch (problem) {
      if (shownSequence !== sequence) return;
      shownSequence = undefined;
      setChildren(element, createElement("p", { class: "fault" }, problem.message));
    }
  }

  // It takes up to some seconds, so the calls are shown before it.
  async function addForecast(calls, sequence) {
    try {
      const forecast = await fetchJson(`/v1/sessions/${session}/forecast`);
      if (shownSequence === sequence) element.querySelector(".budget").replaceWith(renderBudgetStrip(calls, session, forecast));
    } catch (problem) {
      if (shownSequence === sequence) element.querySelector(".budget").append(createElement("p", { class: "fault" }, problem.message));
    }
  }

  return { element, show: showCalls };
}

function renderGrowth({ calls, groups: [own], history_growth: rate }, session) {
  if (!calls.length) return createElement("p", { class: "faint" }, "no call was made yet");
  const components = sumComponents(calls);
  const largest = Math.max(...calls.map((call) => call.tokens), 1);
  const sum = components.reduce((all, [, tokens]) => all + tokens, 0);
  return [renderBudgetStrip(calls, session), createElement("section", { class: "ledger" },
    createElement("h2", {}, formatCount(calls.length, "call"), " ", renderFigures(listSummaryFigures(calls, own, rate), { class: "faint" })),
    createElement("ul", { class: "legend" }, components.map(([name, tokens]) => createElement("li", { class: getComponentHue(name) }, createElement("b", {}),
      formatComponent(name), createElement("span", { class: "faint" }, ` ${formatNumber(tokens)} · ${formatPercent(tokens / sum)}`)))),
    createElement("table", { class: "plain" }, createElement("tbody", {}, calls.map((call) => renderCall(call, session, largest)))))];
}

function sumComponents(calls) {
  const sums = {};
  for (const call of calls) for (const [name, tokens] of Object.entries(call.components)) sums[name] = (sums[name] ?? 0) + tokens;
  return Object.entries(sums).filter(([, tokens]) => tokens);
}

// The sums are of the session's own calls: what a fork copied counts in its original. Turns that are cut
// are those of the last prompt, for most of them were cut in every prompt before it too.
function listSummaryFigures(calls, own, rate) {
  const copied = calls.filter((call) => call.copied).length;
  const saved = own?.savings_estimate;
  const cut = calls.at(-1).cut_turns;
  const growth = Math.round(rate ?? 0);
  return [copied ? `${formatNumber(copied)} copied from the original` : null, own ? formatCostSum(own.cost) : null,
    own?.cached_tokens ? `${formatPercent(own.cached_tokens / own.input_tokens)} sent from caches` : null,
    own ? formatLoss(own.caches) : null,
    saved ? `${formatNumber(saved)} tokens saved, ${formatPercent(saved / (own.tokens + saved))}` : null,
    cut ? `the last prompt leaves out ${formatCount(cut, "turn")}` : null,
    growth ? `history grows by ${formatCount(growth, "token")} a turn` : null];
}

// What was not read from the provider's cache though it was there, or had been: in tokens and in money.
function formatLoss(uses) {
  const lost = uses.filter((use) => use.tokens);
  if (!lost.length) return null;
  const sum = (read) => lost.reduce((all, use) => all + read(use), 0);
  const isPriced = lost.some((use) => use.cost.micro_dollars !== null);
  const cost = formatCost({ micro_dollars: isPriced ? sum((use) => use.cost.micro_dollars ?? 0) : null,
    guessed: lost.some((use) => use.cost.guessed), unpriced_calls: sum((use) => use.cost.unpriced_calls) });
  return [`caches lost ${formatCount(sum((use) => use.tokens), "token")}`, cost].filter(Boolean).join(", ");
}

const MISSES = { expired: "the cache had expired", model: "the cache is another model's", provider: "the provider did not read its cache" };

function describeCache({ cache, prefix_call: before, prefix_ended_by: layer }) {
  const kept = layer ? [`as ${before} up to ${layer}`] : [];
  if (!cache?.tokens) return kept;
  return [...kept, ...(cache.outcome === "missed" ? [MISSES[cache.cause]] : []), formatLoss([cache])];
}

function renderCall(call, session, largest) {
  const strip = createElement("div", { class: "strip" }, Object.entries(call.components).filter(([, tokens]) => tokens)
    .map(([name, tokens]) => renderSegment(name, tokens)));
  strip.style.width = formatPercent(call.tokens / largest);
  const saved = Object.entries(call.saved).map(([rule, tokens]) => `${formatNumber(tokens)} by ${rule}`);
  return createElement("tr", {}, createElement("td", {}, createElement("a", { href: linkToCall(session, call.call) }, call.call)),
    createElement("td", {}, call.kind, call.copied ? createElement("span", { class: "faint" }, " copied") : null),
    createElement("td", { class: "right" }, formatNumber(call.tokens)),
    createElement("td", { class: "bar" }, strip), createElement("td", { class: "faint" }, [...saved, ...describeCache(call)].join(", ")));
}

function renderSegment(name, tokens) {
  const segment = createElement("i", { class: getComponentHue(name), title: `${formatComponent(name)}: ${formatCount(tokens, "token")}` });
  segment.style.flexGrow = tokens;
  return segment;
}
