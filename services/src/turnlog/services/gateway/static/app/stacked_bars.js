// Charts of stacked bars, clicked with a pointer. What a chart shows stands in a table as well, for readers of
// screens and for keys.

import { createElement } from "./dom.js";
import { renderDetails } from "./folding.js";

// `bars` have a label, a link, marks of [sign, class, text], parts of [name, value], and a limit that is drawn as a
// line; `largest` is the value at the top, where another chart has the same; `getHue` colours a part by its name, and `formatValue` writes its value. A bar has a `text`
// where its values are said otherwise, and `values` for the table where its parts are no values.
export function renderBars({ title, summary, bars, getHue, formatValue, largest = findLargest(bars) }) {
  // The last bar comes first, so that a narrow chart begins at its right end.
  return createElement("div", { class: "bars scroll", role: "img", tabindex: "0", "aria-label": `${title}: ${summary}` },
    [...bars].reverse().map((bar) => renderBar(bar, largest, getHue, formatValue)));
}

export function renderChart(chart) {
  const names = [...new Set(chart.bars.flatMap(({ parts }) => parts.filter(([, value]) => value).map(([name]) => name)))];
  return createElement("figure", { class: "chart" }, renderChartHead(chart),
    createElement("ul", { class: "legend" }, names.map((name) => createElement("li", { class: chart.getHue(name) }, createElement("b", {}), name))),
    renderBars(chart),
    renderDetails(`table of ${chart.title}`, false, {}, createElement("summary", {}, "as a table"), renderTable(names, chart.bars, chart.formatValue)));
}

export const renderChartHead = ({ title, summary }) => createElement("figcaption", {}, createElement("h2", {}, title), createElement("span", { class: "faint" }, summary));

export const findLargest = (bars) => Math.max(...bars.map(({ parts, limit }) => Math.max(sumValues(parts), limit ?? 0)), 1);

const sumValues = (parts) => parts.reduce((all, [, value]) => all + value, 0);

function renderBar({ label, href, text, marks = [], parts, limit }, largest, getHue, formatValue) {
  const shown = parts.filter(([, value]) => value);
  if (!shown.length) return createElement("span", { class: "column", title: label });
  const stack = createElement("span", { class: "stack" }, shown.map(([name, value]) => {
    const part = createElement("i", { class: getHue(name) });
    part.style.flexGrow = value;
    return part;
  }));
  stack.style.height = `${(100 * sumValues(parts)) / largest}%`;
  const line = limit ? createElement("b", { class: "limit" }) : null;
  if (line) line.style.bottom = `${(100 * limit) / largest}%`;
  const values = text ? [text] : shown.map(([name, value]) => `${name} ${formatValue(value)}`);
  const figures = [label, ...values, limit ? `of ${formatValue(limit)}` : null, ...marks.map(([, , words]) => words)];
  const link = href ? { on: { click: () => { location.hash = href; } } } : {};
  return createElement("span", { class: href ? "column linked" : "column", title: figures.filter(Boolean).join("\n"), ...link },
    createElement("span", { class: "marks" }, marks.map(([sign, name]) => createElement("span", { class: name }, sign))),
    createElement("span", { class: "plot" }, line, stack));
}

function renderTable(names, bars, formatValue) {
  const heads = ["from", ...names].map((name, place) => createElement("th", { scope: "col", class: place ? "number" : null }, name));
  return createElement("table", { class: "plain" }, createElement("thead", {}, createElement("tr", {}, heads)),
    createElement("tbody", {}, bars.filter(({ parts }) => parts.length).map(({ label, href, parts, values = parts }) => {
      const byName = Object.fromEntries(values);
      return createElement("tr", {}, createElement("td", {}, createElement("a", { href }, label)), names.map((name) => createElement("td", { class: "number" }, formatValue(byName[name] ?? 0))));
    })));
}
