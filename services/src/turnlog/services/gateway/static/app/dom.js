// The only place that creates elements. Text is inserted as text nodes, so text of users or models
// is never parsed as markup.

export function createElement(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "on") {
      for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    } else if (value === true) {
      element.setAttribute(key, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(key, value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

// Replaces all children. The focus stays where it was if the new children have the same control: the
// same `data-key`, or a link to the same place.
export function setChildren(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const selector = focused && focused !== parent ? buildControlSelector(focused) : null;
  parent.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  if (selector && !parent.contains(document.activeElement)) parent.querySelector(selector)?.focus({ preventScroll: true });
}

function buildControlSelector(control) {
  const name = control.dataset.key ? "data-key" : "href";
  const value = control.getAttribute(name);
  return value === null ? null : `${control.localName}[${name}="${CSS.escape(value)}"]`;
}
