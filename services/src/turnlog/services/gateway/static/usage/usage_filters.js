// The choices of the usage view, those of `GET /v1/usage`. They are part of the address, so that links and
// the back button keep them. Times are UTC, as the days and hours of the groups are.

import { createElement } from "../app/dom.js";

const GROUPINGS = ["day", "hour", "user", "profile", "blueprint", "model", "failure"];
const NAMES = ["group_by", "user", "since", "until"];

export function readUsageFilters(query) {
  const written = Object.fromEntries(NAMES.map((name) => [name, query.get(name)]).filter(([, value]) => value));
  return { group_by: GROUPINGS[0], ...written };
}

export function createUsageFilters(goTo) {
  let shown = {};
  const choose = (name, value, isTyping = false) => goTo({ ...shown, [name]: value }, isTyping);
  // Such a box changes with each part of a time that is typed.
  const renderTime = (name) => createElement("input", { type: "datetime-local", max: "9999-12-31T23:59",
    on: { change: () => choose(name, boxes[name].value && `${boxes[name].value}Z`, true) } });
  const boxes = {
    group_by: createElement("select", { on: { change: () => choose("group_by", boxes.group_by.value) } },
      GROUPINGS.map((name) => createElement("option", { value: name }, name))),
    user: createElement("input", { size: 14, autocomplete: "off", on: { change: () => choose("user", boxes.user.value.trim()) } }),
    since: renderTime("since"),
    until: renderTime("until"),
  };
  const labels = { group_by: "group by", user: "user", since: "since (UTC)", until: "until (UTC)" };
  const clear = createElement("button", { type: "button", class: "quiet", on: { click: () => goTo({ group_by: shown.group_by }, false) } }, "all turns");
  const element = createElement("form", { class: "filters", role: "search", "aria-label": "Choose the turns", on: { submit: (event) => event.preventDefault() } },
    NAMES.map((name) => createElement("label", {}, `${labels[name]} `, boxes[name])), clear);

  function showFilters(filters) {
    shown = filters;
    // An attribute is chosen in the address, as `attribute.NAME`.
    if (![...boxes.group_by.options].some((option) => option.value === filters.group_by))
      boxes.group_by.append(createElement("option", { value: filters.group_by }, filters.group_by));
    boxes.group_by.value = filters.group_by;
    if (boxes.user !== document.activeElement) boxes.user.value = filters.user ?? "";
    for (const name of ["since", "until"]) if (boxes[name] !== document.activeElement) boxes[name].value = formatBoxTime(filters[name]);
    clear.hidden = !isNarrowed(filters);
  }

  return { element, show: showFilters };
}

export const isNarrowed = ({ user, since, until }) => Boolean(user || since || until);

// A time of the address as its box shows it: in UTC, to the minute; empty if it is none.
function formatBoxTime(time) {
  const moment = new Date(time ?? NaN);
  return Number.isNaN(moment.getTime()) ? "" : moment.toISOString().slice(0, 16);
}
