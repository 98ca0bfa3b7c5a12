// A blueprint: its versions side by side, with what their prompts hold and cost, the sizes of their prompts by the day,
// and the calls of a usual session against their budget, which lead to the same calls under another rule.

import { renderVerdict } from "../audit/blueprint_version.js";
import { renderBudgetStrip } from "../audit/budget_strip.js";
import { createElement, setChildren } from "../app/dom.js";
import { formatCost, formatCostSum, formatMoney, formatNumber, formatOneLine, formatPercent } from "../app/formatting.js";
import { fetchJson } from "../app/http_client.js";
import { linkToBlueprint, linkToGrowth, linkToSessions } from "../app/links.js";
import { renderPanelTable } from "../app/panel_table.js";
import { splitVersion } from "../app/version_names.js";
import { DAY_MS, renderVersionSizes } from "./version_sizes.js";

const DAYS = [7, 30, 90];
const DEFAULT_DAYS = 30;

// Sessions of which the one in the middle by tokens is shown.
const COMPARED_SESSIONS = 50;

export function createBlueprintView(blueprint) {
  const choice = createElement("select", { "aria-label": "How far back", on: { change: () => { location.hash = linkToBlueprint(blueprint, choice.value); } } },
    DAYS.map((days) => createElement("option", { value: days }, `${days} days`)));
  const content = createElement("div", { class: "panels" });
  const element = createElement("section", { class: "sessions overview" },
    createElement("header", {}, createElement("h1", {}, `Blueprint ${blueprint}`), createElement("label", { class: "faint" }, "of the last ", choice)), content);
  let requests = 0;

  async function showDays(days) {
    const request = (requests += 1);
    const since = new Date(Math.floor(Date.now() / DAY_MS - days + 1) * DAY_MS).toISOString();
    try {
      const [totals, daily, { pins }, usual] = await Promise.all([
        fetchJson("/v1/growth", { blueprint, since, group_by: "version" }), fetchJson("/v1/growth", { blueprint, since, group_by: "version", bucket: "day" }),
        fetchJson("/v1/pins", { blueprint }), fetchUsualSession(blueprint)]);
      if (request === requests) setChildren(content, renderBlueprint({ totals: totals.groups, daily: daily.groups, since, pins, usual }));
    } catch (problem) {
      if (request === requests) setChildren(content, createElement("p", { class: "fault", role: "alert" }, problem.message));
    }
  }

  return {
    element,
    skips: { "the blueprint": () => content, "how far back": () => choice },
    close: () => { requests += 1; },
    go: (_, query) => {
      const asked = Number(query.get("days"));
      choice.value = DAYS.includes(asked) ? asked : DEFAULT_DAYS;
      document.title = `${blueprint} · Turnlog`;
      showDays(Number(choice.value));
    },
  };
}

// The last sessions are compared, for a question about all of them may have too long an answer.
async function fetchUsualSession(blueprint) {
  const { sessions } = await fetchJson("/v1/sessions", { blueprint, order: "last", limit: COMPARED_SESSIONS });
  const used = sessions.filter(({ usage }) => usage?.total_tokens).sort((one, two) => one.usage.total_tokens - two.usage.total_tokens);
  if (!used.length) return null;
  const session = used[Math.floor((used.length - 1) / 2)];
  const { calls } = await fetchJson("/v1/growth", { session: session.session });
  return { ...session, calls, among: used.length };
}

const readVersion = ({ key }) => splitVersion(key.version).version;

function renderBlueprint({ totals, daily, since, pins, usual }) {
  if (!totals.length && !usual) return createElement("p", { class: "empty" }, "No call was made with it in this time.");
  const versions = [...totals].sort((one, two) => readVersion(two) - readVersion(one));
  return [renderVersions(versions, pins), renderVersionSizes(versions, daily, since), usual ? renderUsualSession(usual) : null];
}

function renderVersions(versions, pins) {
  const heads = ["version", "calls", "p10", "p50", "p95", "cost", "a call", "from caches", "caches lost", "cut", "open sessions", "the files"];
  const panel = renderPanelTable("Versions", heads, versions.map((group) => renderVersion(group, pins)), "No call was made with it in this time.");
  panel.classList.add("wide");
  return panel;
}

function renderVersion(group, pins) {
  const { calls, prompt_sizes: sizes, cost, input_tokens: sent, cached_tokens: cached, caches, cut_calls: cut } = group;
  const lost = caches.reduce((all, use) => all + (use.cost.micro_dollars ?? 0), 0);
  const pin = pins.find(({ what, version }) => what === "blueprint" && version === readVersion(group));
  return [group.key.version, formatNumber(calls), formatNumber(sizes.p10), formatNumber(sizes.p50), formatNumber(sizes.p95), formatCostSum(cost),
    cost.micro_dollars === null ? "" : formatCost({ ...cost, micro_dollars: Math.round(cost.micro_dollars / calls) }), sent ? formatPercent(cached / sent) : "", lost ? formatMoney(lost) : "",
    cut ? formatPercent(cut / calls) : "",
    pin ? createElement("a", { href: linkToSessions({ digest: pin.digest, open: "true" }) }, formatNumber(pin.sessions)) : "0", pin ? renderVerdict(pin.current) : ""];
}

function renderUsualSession({ session, title, calls, among }) {
  return createElement("section", { class: "panel wide" },
    createElement("h2", {}, "A usual session"),
    createElement("p", { class: "faint" }, createElement("a", { href: linkToGrowth(session) }, title ? formatOneLine(title) : session), ` is in the middle of the last ${formatNumber(among)} by tokens`),
    renderBudgetStrip(calls, session));
}
