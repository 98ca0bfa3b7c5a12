// Roving focus: a long list is one stop of the Tab key. Its current item can be reached by Tab, and arrow
// keys, Home and End move to other items. Elements that are added later take part by themselves.

const STOPS = "a[href], button, summary, input, select, textarea";
const TYPED_INTO = "input, select, textarea";
const STEPS = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 };
const VERTICAL = ["ArrowUp", "ArrowDown"];
const HORIZONTAL = ["ArrowLeft", "ArrowRight"];

export function makeFocusRove(container, itemSelector, { startsAtEnd = false, horizontal = false } = {}) {
  const keys = [...(horizontal ? HORIZONTAL : VERTICAL), "Home", "End"];
  let current = null;

  const listItems = () => [...container.querySelectorAll(itemSelector)].filter((item) => !item.hidden && listStops(item).length);

  function updateStops() {
    const items = listItems();
    if (!items.includes(current)) current = items.find((item) => item.matches("[aria-current]")) ?? items.at(startsAtEnd ? -1 : 0) ?? null;
    for (const item of items) {
      const wanted = item === current ? 0 : -1;
      for (const stop of listStops(item)) if (stop.tabIndex !== wanted) stop.tabIndex = wanted;
    }
  }

  function selectItem(item) {
    if (!item || item === current) return;
    current = item;
    updateStops();
  }

  function moveByKey(event) {
    if (!keys.includes(event.key) || event.ctrlKey || event.metaKey || event.altKey || event.target.matches(TYPED_INTO)) return;
    const items = listItems();
    const place = items.indexOf(event.target.closest(itemSelector));
    const stops = place < 0 ? [] : listStops(items[place]);
    if (!stops.includes(event.target)) return;
    const next = { Home: items[0], End: items.at(-1) }[event.key] ?? items[place + STEPS[event.key]];
    event.preventDefault();
    if (!next) return;
    selectItem(next);
    const found = listStops(next).filter((stop) => stop.checkVisibility());
    (found[stops.indexOf(event.target)] ?? found[0])?.focus();
  }

  container.addEventListener("focusin", (event) => selectItem(event.target.closest(itemSelector)));
  container.addEventListener("keydown", moveByKey);
  new MutationObserver(updateStops).observe(container, { childList: true, subtree: true, attributeFilter: ["hidden"] });
  updateStops();
}

function listStops(item) {
  return item.matches(STOPS) ? [item] : [...item.querySelectorAll(STOPS)];
}
