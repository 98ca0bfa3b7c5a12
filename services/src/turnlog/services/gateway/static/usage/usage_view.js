// What turns used, by group: how they ended, what retrieval guided and saved, tokens and cost.

import { createElement, setChildren } from "../app/dom.js";
import { formatCostSum, formatCount, formatNumber, formatOneLine, formatPercent } from "../app/formatting.js";
import { describeProblem, fetchJson } from "../app/http_client.js";
import { linkToSessions, linkToUsage, readLocation } from "../app/links.js";
import { createUsageFilters, isNarrowed, readUsageFilters } from "./usage_filters.js";

const REFRESH_MS = 15_000;
const DAY_MS = 86_400_000;

// Tokens are at least the sum where nobody counted those of some attempts.
const formatTokens = (tokens, { unknown_attempts: unknown }) => `${unknown ? "≥ " : ""}${formatNumber(tokens)}`;

const COLUMNS = [
  ["turns", (usage) => formatNumber(usage.turns)],
  ["completed", (usage) => formatNumber(usage.completed)],
  ["failed", (usage) => formatNumber(usage.failed)],
  ["cancelled", (usage) => formatNumber(usage.cancelled)],
  ["open", (usage) => formatNumber(usage.open), "Turns that are not over yet"],
  ["guided", (usage) => formatNumber(usage.guided), "Turns whose prompts had something that was retrieved"],
  ["activation", (usage) => (usage.activation_rate === null ? "" : formatPercent(usage.activation_rate)), "Share of the turns that retrieval guided"],
  ["tokens in", (usage) => formatTokens(usage.input_tokens, usage)],
  ["from cache", (usage) => formatNumber(usage.cached_tokens), "Tokens in that providers read from their caches"],
  ["tokens out", (usage) => formatTokens(usage.output_tokens, usage)],
  ["cost", (usage) => formatCostSum(usage.cost)],
  ["tokens saved", (usage) => formatNumber(usage.saved_tokens), "Output tokens that guided turns took less than the turn before them"],
  ["cost saved", (usage) => formatCostSum(usage.saved_cost), "What they would have cost, by the price of an output token of each model"],
];

export function createUsageView() {
  const filterBar = createUsageFilters(goToFilters);
  const count = createElement("p", { class: "faint", role: "status" });
  const list = createElement("div", { class: "list" });
  const element = createElement("section", { class: "sessions usage" }, createElement("h1", {}, "Usage"), filterBar.element, count, list);
  let requests = 0;
  let shown = {};

  // Typing changes the address in place; a choice is a step that the back button undoes.
  function goToFilters(filters, isTyping) {
    if (!isTyping) location.hash = linkToUsage(filters);
    else {
      history.replaceState(null, "", linkToUsage(filters));
      showUsage(readLocation().query);
    }
  }

  function showUsage(query) {
    shown = readUsageFilters(query);
    filterBar.show(shown);
    refresh();
  }

  async function refresh() {
    const number = (requests += 1);
    try {
      const report = await fetchJson("/v1/usage", shown);
      if (number === requests) drawReport(report);
    } catch (problem) {
      if (number === requests) drawProblem(problem);
    }
  }

  function drawReport({ total, groups }) {
    const text = total.turns ? formatCount(total.turns, "turn") : "";
    if (count.textContent !== text) count.textContent = text;
    setChildren(list, total.turns ? renderTable(shown, groups, total) : renderEmptyUsage(shown));
  }

  function drawProblem(problem) {
    count.textContent = "";
    setChildren(list, createElement("p", { class: "fault", role: "alert" }, describeProblem(problem)));
  }

  const timer = setInterval(() => document.hidden || refresh(), REFRESH_MS);
  return {
    element,
    skips: { "the usage": () => list.querySelector("tbody a") ?? list, "the choice of turns": () => filterBar.element.querySelector("select") },
    close: () => {
      requests += 1;
      clearInterval(timer);
    },
    go: (_, query) => {
      document.title = "Usage · Turnlog";
      showUsage(query);
    },
  };
}

function renderTable(filters, groups, total) {
  const by = filters.group_by;
  const isTime = by === "day" || by === "hour";
  const rows = isTime ? [...groups].reverse() : groups;
  const heads = COLUMNS.map(([name, , meaning]) => createElement("th", { scope: "col", class: "number", title: meaning }, name));
  return createElement("table", {},
    createElement("thead", {}, createElement("tr", {}, createElement("th", { scope: "col" }, isTime ? `${by} (UTC)` : by), heads)),
    createElement("tbody", {}, rows.map((usage) => renderRow(renderGroup(filters, usage.group), usage))),
    createElement("tfoot", {}, renderRow("all", total)));
}

function renderRow(name, usage) {
  return createElement("tr", {}, createElement("th", { scope: "row", class: "group" }, name),
    COLUMNS.map(([label, format]) => createElement("td", { class: "number", "data-label": usage.turns === 1 && label === "turns" ? "turn" : label }, format(usage))));
}

// A user leads to the days of that user, a day to its hours; what else is chosen stays. A failure leads
// to the sessions that have it.
function renderGroup(filters, group) {
  if (group === null) return filters.group_by === "failure" ? "(none)" : "(unknown)";
  switch (filters.group_by) {
    case "user":
      return createElement("a", { href: linkToUsage({ ...filters, group_by: "day", user: group }) }, group);
    case "day": {
      const since = new Date(`${group}T00:00Z`);
      const until = new Date(since.getTime() + DAY_MS);
      const hours = { group_by: "hour", since: formatMinute(since), until: formatMinute(until) };
      return createElement("a", { href: linkToUsage({ ...filters, ...hours }) }, group);
    }
    case "failure":
      return createElement("a", { href: linkToSessions({ failure: group }) }, group);
    case "hour":
      return `${group.replace("T", " ")}:00`;
    default:
      return formatOneLine(group);
  }
}

const formatMinute = (moment) => `${moment.toISOString().slice(0, 16)}Z`;

function renderEmptyUsage(filters) {
  if (isNarrowed(filters)) return createElement("p", { class: "empty" }, "No such turn was submitted.");
  return createElement("p", { class: "empty" }, "No turn was submitted yet. ", createElement("a", { href: linkToSessions() }, "The sessions"), " are where one is.");
}
