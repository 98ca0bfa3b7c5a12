// A table below its title, or what to say if it has no row. The first column names the row; the others are figures.

import { createElement } from "./dom.js";

export function renderPanelTable(title, heads, rows, empty) {
  const body = rows.length ? createElement("div", { class: "list" }, createElement("table", {},
    createElement("thead", {}, createElement("tr", {}, heads.map((name, place) => createElement("th", { scope: "col", class: place ? "number" : null }, name)))),
    createElement("tbody", {}, rows.map((cells) => createElement("tr", {}, cells.map((cell, place) => createElement("td", { class: place ? "number" : "group", "data-label": place ? heads[place] : null }, cell)))))))
    : createElement("p", { class: "faint" }, empty);
  return createElement("section", { class: "panel" }, createElement("h2", {}, title), body);
}
