// Keeps the reader's place in views that leave the document for a while: an element loses its scroll
// position there.

const SCROLLERS = ".scroll, .prompt-and-answer, .prompt-pane, .answer-pane";
const scrollPositions = new WeakMap();

const listScrollers = (element) => [element, ...element.querySelectorAll(SCROLLERS)];

export function noteScroll(element) {
  for (const each of listScrollers(element)) scrollPositions.set(each, [each.scrollTop, each.scrollLeft]);
}

export function restoreScroll(element) {
  for (const each of listScrollers(element)) {
    if (scrollPositions.has(each)) [each.scrollTop, each.scrollLeft] = scrollPositions.get(each);
  }
}

// What scrolls can have the focus, so that keys can scroll it.
export function makeScrollersFocusable(element) {
  for (const each of listScrollers(element)) if (each.matches(SCROLLERS)) each.tabIndex = 0;
}
