// The calls of a session against their budget: a bar for each by component, a line where its budget ends, ▲ where
// a rule cut the prompt, and ● where the provider's cache was lost, with its price.

import { formatComponent, getComponentHue } from "../app/component_hues.js";
import { createElement } from "../app/dom.js";
import { formatCost, formatCount, formatNumber } from "../app/formatting.js";
import { linkToCall, linkToWhatIf } from "../app/links.js";
import { renderBars, renderChartHead } from "../app/stacked_bars.js";

// The share of a budget to which the rule is tried that is offered first.
const TRIED_SHARE = 80;

export function renderBudgetStrip(calls, session) {
  const cuts = calls.filter(isCut).length;
  const losses = calls.filter(({ cache }) => cache?.tokens).length;
  const figures = [calls.some(({ budget }) => budget) ? "the line is the budget" : "no call has a budget",
    cuts ? `▲ ${formatCount(cuts, "call")} cut` : null, losses ? `● ${formatCount(losses, "cache")} lost` : null];
  const strip = { title: "Prompts against their budget", summary: figures.filter(Boolean).join(", "), bars: calls.map((call) => buildBar(call, session)),
    getHue: getComponentHue, formatValue: formatNumber };
  return createElement("figure", { class: "chart budget" }, renderChartHead(strip), renderBars(strip),
    cuts ? createElement("p", {}, createElement("a", { href: linkToWhatIf(session, { to: TRIED_SHARE }) }, `what would they cost, cut to ${TRIED_SHARE}% of the budget when it is full?`)) : null);
}

const isCut = ({ optimizations_applied: rules }) => rules.length > 0;

function buildBar(call, session) {
  const { cache, budget, components } = call;
  return {
    label: `call ${call.call}, ${call.kind}`, href: linkToCall(session, call.call), limit: budget,
    parts: Object.entries(components).map(([name, tokens]) => [formatComponent(name), tokens]),
    marks: [
      ...(isCut(call) ? [["▲", "wary", `cut by ${call.optimizations_applied.join(", ")}`]] : []),
      ...(cache?.tokens ? [["●", "bad", [`cache ${cache.outcome}: ${formatCount(cache.tokens, "token")}`, formatCost(cache.cost)].filter(Boolean).join(", ")]] : []),
    ],
  };
}
