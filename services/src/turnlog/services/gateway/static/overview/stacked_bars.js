// A chart of stacked bars over time. Its table has the same figures, for readers of screens and for everyone.

import { createElement } from "../app/dom.js";
import { renderDetails } from "../app/folding.js";

// `bars` have a label, a link, a mark (a text above the bar, or null) and parts of [name, value]; `getHue` colours
// a part by its name, and `formatValue` writes its value.
export function renderStackedBars({ title, summary, bars, getHue, formatValue }) {
  const names = [...new Set(bars.flatMap(({ parts }) => parts.filter(([, value]) => value).map(([name]) => name)))];
  const largest = Math.max(...bars.map(({ parts }) => sumValues(parts)), 1);
  // The last bar comes first, so that a narrow chart begins at its right end.
  const columns = [...bars].reverse().map((bar) => renderBar(bar, largest, getHue, formatValue));
  return createElement("figure", { class: "chart" },
    createElement("figcaption", {}, createElement("h2", {}, title), createElement("span", { class: "faint" }, summary)),
    createElement("ul", { class: "legend" }, names.map((name) => createElement("li", { class: getHue(name) }, createElement("b", {}), name))),
    createElement("div", { class: "bars scroll", role: "img", tabindex: "0", "aria-label": `${title}: ${summary}` }, columns),
    renderDetails(`table of ${title}`, false, {}, createElement("summary", {}, "as a table"), renderTable(names, bars, formatValue)));
}

const sumValues = (parts) => parts.reduce((all, [, value]) => all + value, 0);

// A bar is clicked with a pointer; the links for keys are in the table.
function renderBar({ label, href, mark, parts }, largest, getHue, formatValue) {
  const shown = parts.filter(([, value]) => value);
  if (!shown.length) return createElement("span", { class: "column", title: label });
  const stack = createElement("span", { class: "stack" }, shown.map(([name, value]) => {
    const part = createElement("i", { class: getHue(name) });
    part.style.flexGrow = value;
    return part;
  }));
  stack.style.height = `${(100 * sumValues(parts)) / largest}%`;
  const figures = [label, ...shown.map(([name, value]) => `${name} ${formatValue(value)}`), mark].filter(Boolean).join("\n");
  return createElement("span", { class: "column linked", title: figures, on: { click: () => { location.hash = href; } } },
    mark ? createElement("span", { class: "mark wary" }, "▲") : null, stack);
}

function renderTable(names, bars, formatValue) {
  const heads = ["from", ...names].map((name, place) => createElement("th", { scope: "col", class: place ? "number" : null }, name));
  return createElement("table", { class: "plain" }, createElement("thead", {}, createElement("tr", {}, heads)),
    createElement("tbody", {}, bars.filter(({ parts }) => parts.length).map(({ label, href, parts }) => {
      const values = Object.fromEntries(parts);
      return createElement("tr", {}, createElement("td", {}, createElement("a", { href }, label)), names.map((name) => createElement("td", { class: "number" }, formatValue(values[name] ?? 0))));
    })));
}
