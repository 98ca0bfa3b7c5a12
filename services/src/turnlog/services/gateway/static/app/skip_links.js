// The first stops of the Tab key: buttons that lead past the navigation. They are seen while they have
// the focus. Links would change the address, which selects the view.

import { createElement, setChildren } from "./dom.js";

const container = document.getElementById("skips");

// `targets` are names with functions that return the element to go to; it may not exist yet.
export function showSkipLinks(targets) {
  setChildren(container, Object.entries(targets).map(([name, findTarget]) =>
    createElement("button", { type: "button", on: { click: () => moveFocus(findTarget()) } }, name)));
}

export function moveFocus(element) {
  if (!element) return;
  if (element.tabIndex < 0) element.tabIndex = -1;
  element.focus();
}
