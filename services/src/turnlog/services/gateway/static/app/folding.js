// Long texts are folded to their first lines, with a button that shows all of them. What was unfolded
// is remembered by a key, so it stays unfolded when a view is drawn again.

import { createElement } from "./dom.js";
import { formatCount } from "./formatting.js";

const MAX_LINES = 12;
const MAX_CHARACTERS = 900;
const LINE_BREAK = /\n/g;
const unfolded = new Set();

const isLong = (text) => text.length > MAX_CHARACTERS || (text.match(LINE_BREAK)?.length ?? 0) >= MAX_LINES;

// An element with a text; a long one with a button after it. The whole text is in the page either way,
// so that a search in the page finds it.
export function renderFoldedText(key, text, properties = {}, name = "div") {
  if (!isLong(text)) return createElement(name, properties, text);
  const body = createElement(name, properties, text);
  const button = createElement("button", { type: "button", class: "quiet unfold", "data-key": key, on: { click: toggle } });
  const element = createElement("div", { class: "folding" }, body, button);

  function draw() {
    const isOpen = unfolded.has(key);
    body.classList.toggle("folded", !isOpen);
    button.setAttribute("aria-expanded", String(isOpen));
    button.textContent = isOpen ? "show less" : `show all ${formatCount(countCharacters(text), "character")}`;
  }

  function toggle() {
    if (!unfolded.delete(key)) unfolded.add(key);
    draw();
    // Where a long text was folded again, its beginning and the button are what the reader looks at.
    if (!unfolded.has(key)) element.scrollIntoView({ block: "nearest" });
  }

  draw();
  return element;
}

// Code points, as the record counts them.
function countCharacters(text) {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

// A `details` element that stays as it was left; `isOpen` is how it begins.
export function renderDetails(key, isOpen, properties, ...children) {
  const openKey = `${key} open`;
  const closedKey = `${key} closed`;
  const open = isOpen ? !unfolded.has(closedKey) : unfolded.has(openKey);
  const element = createElement("details", { ...properties, open }, ...children);
  element.querySelector("summary").dataset.key = key;
  // `toggle` also fires when an element is created open, so only a difference to the beginning is kept.
  element.addEventListener("toggle", () => {
    unfolded.delete(openKey);
    unfolded.delete(closedKey);
    if (element.open !== isOpen) unfolded.add(element.open ? openKey : closedKey);
  });
  return element;
}
