// The overview: what goes on now, how the context of calls grows and what it costs, and which sessions need a
// look. Every figure leads to where its cause is. It is one stream, sent again when something has changed.

import { formatComponent, getComponentHue } from "../app/component_hues.js";
import { createElement, setChildren } from "../app/dom.js";
import { openEventSource } from "../app/event_source.js";
import { formatAge, formatCents, formatCostSum, formatCount, formatDuration, formatMoney, formatNumber, formatOneLine, formatPercent } from "../app/formatting.js";
import { fetchJson } from "../app/http_client.js";
import { linkToBlueprint, linkToDiff, linkToGrowth, linkToOverview, linkToSession, linkToSessions, linkToUsage } from "../app/links.js";
import { renderPanelTable } from "../app/panel_table.js";
import { renderChart } from "../app/stacked_bars.js";
import { splitVersion } from "../app/version_names.js";

const HOURS = [6, 24, 72, 168];
const DEFAULT_HOURS = 24;
const HOUR_MS = 3_600_000;
const ALERT_SESSIONS = 3;
const COST_HUES = { "sent and answered": "hue-0", "lost by caches": "hue-4" };

export function createOverview() {
  const choice = createElement("select", { "aria-label": "How far back", on: { change: () => { location.hash = linkToOverview(choice.value); } } },
    HOURS.map((hours) => createElement("option", { value: hours }, hours < 48 ? `${hours} hours` : `${hours / 24} days`)));
  const content = createElement("div", { class: "panels" });
  const element = createElement("section", { class: "sessions overview" },
    createElement("header", {}, createElement("h1", {}, "Overview"), createElement("label", { class: "faint" }, "of the last ", choice)), content);
  let stream = null;
  let breaks = [];

  // The dearest causes are read once: they change slowly, and to find them every call is read.
  function watch(hours) {
    stream?.close();
    const since = new Date(Math.floor(Date.now() / HOUR_MS - hours) * HOUR_MS).toISOString();
    let latest = null;
    const draw = () => latest && setChildren(content, renderPanels(latest, hours, breaks));
    stream = openEventSource(() => `/v1/overview?${new URLSearchParams({ since })}`, { overview: ({ data }) => { latest = JSON.parse(data); draw(); } });
    fetchJson("/v1/cache-breaks", { since }).then((found) => { breaks = found.breaks; draw(); }).catch(() => {});
  }

  return {
    element,
    skips: { "the overview": () => content, "how far back": () => choice },
    close: () => stream?.close(),
    go: (_, query) => {
      const asked = Number(query.get("hours"));
      choice.value = HOURS.includes(asked) ? asked : DEFAULT_HOURS;
      document.title = "Turnlog";
      watch(Number(choice.value));
    },
  };
}

function renderPanels({ tiles, alerts, series, near, versions, failures, slow }, hours, breaks) {
  if (!near.length && !series.length) return [renderAlerts(alerts), renderEmpty()];
  return [
    renderAlerts(alerts),
    renderTiles(tiles, series),
    createElement("div", { class: "charts" }, renderTokens(series, hours), renderCosts(series, hours)),
    renderNear(near), renderBreaks(breaks), renderVersions(versions), renderFailures(failures), renderSlow(slow),
  ];
}

function renderEmpty() {
  const command = `curl ${location.origin}/v1/sessions -H 'Content-Type: application/json' \\\n  -d '{"blueprint": "assistant"}'`;
  return createElement("div", { class: "empty" }, createElement("p", {}, "No session is open yet. This opens one:"), createElement("pre", {}, command));
}

// What is raised, above all else; each names the sessions that have most of it, as many as are worth a key press.
function renderAlerts(alerts) {
  return alerts.length ? createElement("ul", { class: "alerts", "aria-label": "Alerts" }, alerts.map(renderAlert)) : null;
}

function renderAlert({ name, status, since, measure, unit, value, threshold, window: span, sessions }) {
  const shown = sessions.slice(0, ALERT_SESSIONS);
  const more = sessions.length - shown.length;
  const figure = `${measure} ${value === null ? "without data" : formatAmount(value)}, above ${formatAmount(threshold)} ${unit}${span ? ` in ${span}` : ""}`;
  return createElement("li", { class: status === "raised" ? "raised" : "warning" },
    createElement("strong", { class: status === "raised" ? "bad" : "wary" }, `${status === "raised" ? "▲" : "△"} ${name}`), " ",
    createElement("span", {}, figure), " ",
    createElement("span", { class: "faint" }, status, " ", createElement("time", { datetime: since, title: since }, formatAge(since))),
    shown.length ? createElement("span", { class: "worst" }, "most in ", shown.map((session, place) => [place ? ", " : "", createElement("a", { href: linkToSession(session) }, session)]),
      more ? createElement("span", { class: "faint" }, ` and ${formatNumber(more)} more`) : null) : null);
}

const formatAmount = (value) => formatNumber(Math.abs(value) < 1000 ? Number(value.toPrecision(4)) : Math.round(value));

function renderTiles(tiles, series) {
  const cached = tiles.input_tokens ? formatPercent(tiles.cached_tokens / tiles.input_tokens) : "–";
  return createElement("ul", { class: "tiles" },
    renderTile(formatNumber(tiles.turns_in_flight), "turns in flight", linkToSessions({ order: "last" })),
    renderTile(formatNumber(Math.round(tiles.turns_per_minute * 10) / 10), "turns a minute", linkToUsage({ group_by: "hour" })),
    renderTile(tiles.p95_ms === null ? "–" : formatDuration(tiles.p95_ms), "p95 of answers, last hour", linkToUsage({ group_by: "model" })),
    renderTile(formatNumber(tiles.failed_last_hour), "failed, last hour", linkToSessions({ order: "failed" }), tiles.failed_last_hour > 0),
    renderTile(formatCents(tiles.cost_today.micro_dollars) || "–", "spent today", linkToSessions({ order: "cost" })),
    renderTile(cached, "read from caches", linkToUsage({ group_by: "model" })),
    renderTile(formatNumber(tiles.near_sessions), "near their budget", linkToSessions({ order: "near" }), tiles.near_sessions > 0),
    renderTile(formatNumber(series.reduce((all, { cut_calls: cut }) => all + cut, 0)), "calls cut", linkToSessions({ order: "near" })),
    renderTile(formatNumber(tiles.stopped_sessions), "stopped", linkToSessions({ order: "last" }), tiles.stopped_sessions > 0),
    tiles.lag ? renderTile(formatNumber(tiles.lag), "events behind", linkToSessions({ order: "last" }), true) : null);
}

const renderTile = (figure, name, href, isBad = false) => createElement("li", {},
  createElement("a", { href }, createElement("strong", { class: isBad ? "bad" : null }, figure), " ", createElement("span", {}, name)));

function renderTokens(growth, hours) {
  const bars = buildBars(growth, hours, (group) => Object.entries(group.components).map(([name, tokens]) => [formatComponent(name), tokens]),
    ({ cut_calls: cut }) => (cut ? [["▲", "wary", `${formatCount(cut, "call")} cut`]] : []));
  const tokens = growth.reduce((all, group) => all + group.tokens, 0);
  return renderChart({ title: "Tokens of prompts, by component", summary: `${formatNumber(tokens)} in ${formatCount(growth.reduce((all, { calls }) => all + calls, 0), "call")}; ▲ where prompts were cut`,
    bars, getHue: getComponentHue, formatValue: formatNumber });
}

function renderCosts(growth, hours) {
  const bars = buildBars(growth, hours, (group) => {
    const lost = group.caches.reduce((all, use) => all + (use.cost.micro_dollars ?? 0), 0);
    return [["lost by caches", lost], ["sent and answered", Math.max(0, (group.cost.micro_dollars ?? 0) - lost)]];
  }, () => []);
  const sum = bars.reduce((all, { parts }) => all + parts.reduce((own, [, micro]) => own + micro, 0), 0);
  return renderChart({ title: "Cost", summary: `${formatMoney(sum) || "nothing with a price"}, and what of it caches lost`,
    bars, getHue: (name) => COST_HUES[name], formatValue: formatMoney });
}

// A bar for each hour, also for one without a call; it leads to the sessions of that hour, the dearest first.
function buildBars(growth, hours, listParts, listMarks) {
  const found = new Map(growth.map((group) => [new Date(group.at).getTime(), group]));
  const last = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
  return Array.from({ length: Number(hours) + 1 }, (_, place) => {
    const from = last - (hours - place) * HOUR_MS;
    const group = found.get(from);
    const [since, until] = [from, from + HOUR_MS].map((time) => new Date(time).toISOString().slice(0, 16) + "Z");
    return { label: since.slice(5).replace("T", " "), href: linkToSessions({ since, until, order: "cost" }), marks: group ? listMarks(group) : [], parts: group ? listParts(group) : [] };
  });
}

const renderNear = (sessions) => renderPanelTable("Nearest to their budget", ["session", "blueprint", "of the budget"],
  sessions.map((session) => [createElement("a", { href: linkToGrowth(session.session) }, session.title ? formatOneLine(session.title) : session.session),
    `${session.blueprint} v${session.version}`, formatPercent(session.budget_share)]), "No prompt has a budget yet.");

const renderBreaks = (breaks) => renderPanelTable("What caches lost", ["cause", "calls", "tokens", "cost"],
  breaks.map(({ blueprint, version, lost, session, call, prefix_call: before }) => [
    [createElement("a", { href: linkToDiff(session, before, call) }, lost.outcome === "broken" ? `changed: ${lost.cause}` : `missed: ${lost.cause}`), createElement("span", { class: "faint" }, ` ${blueprint} v${version}`)],
    formatNumber(lost.calls), formatNumber(lost.tokens), formatCostSum(lost.cost)]), "Nothing that is known of.");

const renderVersions = (versions) => renderPanelTable("Prompts by version of a blueprint", ["blueprint", "calls", "p50", "p95", "cost"],
  versions.map(({ key, calls, prompt_sizes: sizes, cost }) => [[createElement("a", { href: linkToBlueprint(splitVersion(key.version).blueprint) }, key.version)],
    formatNumber(calls), formatNumber(sizes.p50), formatNumber(sizes.p95), formatCostSum(cost)]), "No call was made.");

const renderFailures = (failures) => renderPanelTable("Failed turns", ["code", "turns", "last"],
  failures.map(({ code, turns, last_at: last }) => [createElement("a", { href: linkToSessions({ failure: code ?? "", failed: code ? "" : "true" }) }, code ?? "(unknown)"), formatNumber(turns), formatAge(last)]), "None.");

const renderSlow = (models) => renderPanelTable("Slowest models, last hour", ["model", "answers", "p95"],
  models.map(({ model, attempts, p95_ms: p95 }) => [model, formatNumber(attempts), formatDuration(p95)]), "No model was called.");
