// The calls of a session against their budget: a bar for each by component, a line where its budget ends, ▲ where
// a rule cut the prompt, and ● where the provider's cache was lost, with its price. The next turns follow as they are
// forecast, as a pale band, with the forecast in a sentence and how good such forecasts are.

import { formatComponent, getComponentHue } from "../app/component_hues.js";
import { createElement } from "../app/dom.js";
import { formatCost, formatCount, formatNumber, formatPercent } from "../app/formatting.js";
import { linkToCall, linkToWhatIf } from "../app/links.js";
import { renderBars, renderChartHead } from "../app/stacked_bars.js";

// The share of a budget to which the rule is tried that is offered first.
const TRIED_SHARE = 80;

// The parts of the bar of a turn that is forecast, each with its hue.
const BAND = { least: "forecast", most: "forecast band" };

export function renderBudgetStrip(calls, session, forecast = null) {
  const cuts = calls.filter(isCut).length;
  const losses = calls.filter(({ cache }) => cache?.tokens).length;
  const figures = [calls.some(({ budget }) => budget) ? "the line is the budget" : "no call has a budget",
    cuts ? `▲ ${formatCount(cuts, "call")} cut` : null, losses ? `● ${formatCount(losses, "cache")} lost` : null];
  const strip = { title: "Prompts against their budget", summary: figures.filter(Boolean).join(", "), bars: [...calls.map((call) => buildBar(call, session)), ...listForecastBars(calls, forecast)],
    getHue: (name) => BAND[name] ?? getComponentHue(name), formatValue: formatNumber };
  return createElement("figure", { class: "chart budget" }, renderChartHead(strip), renderBars(strip),
    forecast ? renderForecast(forecast) : null,
    cuts ? createElement("p", {}, createElement("a", { href: linkToWhatIf(session, { to: TRIED_SHARE }) }, `what would they cost, cut to ${TRIED_SHARE}% of the budget when it is full?`)) : null);
}

const isCut = ({ optimizations_applied: rules }) => rules.length > 0;

function buildBar(call, session) {
  const { cache } = call;
  return buildPromptBar(call, session, { ...call, rules: call.optimizations_applied }, cache?.tokens ? [`cache ${cache.outcome}: ${formatCount(cache.tokens, "token")}`, formatCost(cache.cost)] : []);
}

// `loss` has the words about what the provider's cache lost, none if it lost nothing.
export function buildPromptBar({ call, kind }, session, { budget, components, rules }, loss) {
  return {
    label: `call ${call}, ${kind}`, href: linkToCall(session, call), limit: budget,
    parts: Object.entries(components).map(([name, tokens]) => [formatComponent(name), tokens]),
    marks: [...(rules.length ? [["▲", "wary", `cut by ${rules.join(", ")}`]] : []), ...(loss.length ? [["●", "bad", loss.filter(Boolean).join(", ")]] : [])],
  };
}

// The budget is that of the latest call: the forecast measures the largest prompt of each turn.
function listForecastBars(calls, forecast) {
  const limit = calls.at(-1)?.budget;
  return (forecast?.next_turns ?? []).map(({ turn, p10, p50, p90 }) => ({
    label: `turn ${turn}, forecast`, limit, text: `${formatNumber(p50)} tokens, ${formatNumber(p10)} to ${formatNumber(p90)}`,
    parts: [["least", p10], ["most", p90 - p10]],
  }));
}

function renderForecast({ sentence, turns, measured }) {
  return createElement("p", { class: "foreseen" }, sentence, turns ? createElement("span", { class: "faint" }, ` ${describeErrors(measured)}`) : null);
}

function describeErrors({ sessions, median_error: median, p90_error: p90, coverage }) {
  if (median === null || coverage === null) return "Such forecasts were not measured yet.";
  const rare = p90 === null ? "" : `, by ${formatNumber(p90)} in one of ten`;
  return `In a test on ${formatCount(sessions, "session")} such forecasts were off by ${formatCount(median, "turn")} in the median${rare}; ${formatPercent(coverage)} were within the band.`;
}
