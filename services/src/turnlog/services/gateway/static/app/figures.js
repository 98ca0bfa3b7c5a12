// Figures that wrap as a unit: a number never stands on another line than its label.

import { createElement } from "./dom.js";

// Figures in a row, separated by dots; empty ones are left out. A figure is a text or an element.
export function renderFigures(figures, properties = {}) {
  const units = figures.flat().filter(Boolean).map((figure) => createElement("span", { class: "figure" }, figure));
  return createElement("span", { ...properties, class: ["figures", properties.class].filter(Boolean).join(" ") },
    units.map((unit, place) => (place ? [" · ", unit] : unit)));
}
