// How large the prompts of each version of a blueprint were, day by day: a chart a version, all to one scale and with
// the same days, so that versions are compared at a glance.

import { createElement } from "../app/dom.js";
import { formatNumber } from "../app/formatting.js";
import { linkToSessions } from "../app/links.js";
import { findLargest, renderChart } from "../app/stacked_bars.js";
import { splitVersion } from "../app/version_names.js";

const HUES = { p10: "hue-history", p50: "hue-0", p95: "hue-1" };
export const DAY_MS = 86_400_000;

export function renderVersionSizes(versions, daily, since) {
  const days = listDays(since);
  const charts = versions.map(({ key, prompt_sizes: sizes }) => ({
    title: `Prompts of ${key.version}`, summary: `tokens that 10, 50 and 95 of 100 do not exceed: ${formatSizes(sizes)}`,
    bars: days.map((day) => buildDay(day, daily.find((group) => group.at === day && group.key.version === key.version))), getHue: (name) => HUES[name], formatValue: formatNumber }));
  const largest = Math.max(1, ...charts.map(({ bars }) => findLargest(bars)));
  return createElement("div", { class: "charts" }, charts.map((chart) => renderChart({ ...chart, largest })));
}

// All of the time, also days without a call.
const listDays = (since) => Array.from({ length: Math.ceil((Date.now() - new Date(since)) / DAY_MS) }, (_, place) => `${new Date(new Date(since).getTime() + place * DAY_MS).toISOString().slice(0, 19)}Z`);

function buildDay(day, group) {
  const label = day.slice(0, 10);
  if (!group) return { label, parts: [] };
  const { p10, p50, p95 } = group.prompt_sizes;
  const { blueprint } = splitVersion(group.key.version);
  const until = `${new Date(new Date(day).getTime() + DAY_MS).toISOString().slice(0, 19)}Z`;
  return { label, href: linkToSessions({ blueprint, since: day, until, order: "cost" }), text: formatSizes(group.prompt_sizes),
    parts: [["p10", p10], ["p50", p50 - p10], ["p95", p95 - p50]], values: [["p10", p10], ["p50", p50], ["p95", p95]] };
}

const formatSizes = ({ p10, p50, p95 }) => [p10, p50, p95].map(formatNumber).join(" · ");
