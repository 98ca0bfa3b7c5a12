// The calls of a session against their budget as they were recorded, and below them the same calls under a change, each
// with its bill: both are drawn to one scale and scroll together, so that a call stands above itself.

import { getComponentHue } from "../app/component_hues.js";
import { createElement } from "../app/dom.js";
import { formatCount, formatMoney, formatNumber } from "../app/formatting.js";
import { findLargest, renderBars, renderChartHead } from "../app/stacked_bars.js";
import { buildPromptBar } from "./budget_strip.js";

export function renderComparedStrips({ session, compared, before, after }) {
  const [recorded, supposed] = ["before", "after"].map((side) => compared.map((call) => buildBar(call, session, call[side])));
  const largest = Math.max(findLargest(recorded), findLargest(supposed));
  const strips = [renderStrip("As recorded", recorded, before, largest), renderStrip("Under the change", supposed, after, largest)];
  const [one, two] = strips.map((strip) => strip.querySelector(".bars"));
  scrollWith(one, two);
  scrollWith(two, one);
  return createElement("div", { class: "compared" }, strips);
}

function buildBar(call, session, prompt) {
  if (!prompt) return { label: `call ${call.call}, ${call.kind}: not made`, parts: [] };
  const { lost_tokens: tokens, lost_micro_dollars: cost } = prompt;
  return buildPromptBar(call, session, { ...prompt, rules: prompt.cut_by }, tokens ? [`cache lost: ${formatCount(tokens, "token")}`, formatMoney(cost)] : []);
}

function renderStrip(title, bars, totals, largest) {
  const count = (sign) => bars.filter(({ marks = [] }) => marks.some(([each]) => each === sign)).length;
  const [cuts, losses] = [count("▲"), count("●")];
  const summary = [`${formatMoney(totals.cached_micro_dollars, totals.guessed)} for prompts, if no cache expires`,
    cuts ? `▲ ${formatCount(cuts, "call")} cut` : null, losses ? `● ${formatCount(losses, "cache")} lost, ${formatMoney(totals.lost_micro_dollars)}` : null];
  const strip = { title, summary: summary.filter(Boolean).join(", "), bars, largest, getHue: getComponentHue, formatValue: formatNumber };
  return createElement("figure", { class: "chart budget" }, renderChartHead(strip), renderBars(strip));
}

function scrollWith(leading, following) {
  leading.addEventListener("scroll", () => { following.scrollLeft = leading.scrollLeft; });
}
