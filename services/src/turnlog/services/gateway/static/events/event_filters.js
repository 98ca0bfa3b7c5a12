// The filters of a record: family, type, turn and text. They are part of the address, so that links and the
// back button keep them.

import { createElement, setChildren } from "../app/dom.js";
import { EVENT_FAMILIES } from "./event_catalogue.js";
import { describeEvent, formatEventName, getEventFamily } from "./event_sentences.js";

const NAMES = ["family", "type", "turn", "text"];

export function createEventFilters(goTo) {
  const family = createElement("select", { name: "family", "aria-label": "Family of events", on: { change: applyChoice } });
  const type = createElement("select", { name: "type", "aria-label": "Type of event", on: { change: applyChoice } });
  const turn = createElement("input", { name: "turn", type: "number", min: 1, placeholder: "turn", "aria-label": "Turn", on: { input: applyTyping } });
  const text = createElement("input", { name: "text", type: "search", placeholder: "Text in the event", "aria-label": "Text in the event", on: { input: applyTyping } });
  const clear = createElement("button", { type: "button", class: "quiet", on: { click: () => goTo({}, false) } }, "clear");
  const count = createElement("span", { class: "faint", role: "status" });
  const element = createElement("form", { class: "filters", role: "search", "aria-label": "Filter the events", on: { submit: (event) => event.preventDefault() } },
    text, family, type, turn, count, clear);
  const boxes = { family, type, turn, text };
  setChildren(family, renderOptions("all families", [...new Set(Object.values(EVENT_FAMILIES))]));
  drawTypes("");

  function drawTypes(chosenFamily) {
    const types = Object.keys(EVENT_FAMILIES).filter((name) => !chosenFamily || EVENT_FAMILIES[name] === chosenFamily);
    const chosen = type.value;
    setChildren(type, renderOptions("all types", types));
    type.value = types.includes(chosen) ? chosen : "";
  }

  const readBoxes = () => Object.fromEntries(NAMES.map((name) => [name, boxes[name].value.trim()]).filter(([, value]) => value));

  function applyChoice() {
    drawTypes(family.value);
    goTo(readBoxes(), false);
  }

  function applyTyping() {
    goTo(readBoxes(), true);
  }

  // Shows the filters of an address; a box that is being typed into already shows them.
  function showFilters(filters, searched) {
    for (const name of NAMES) {
      if (boxes[name] === document.activeElement && boxes[name].value.trim() === (filters[name] ?? "")) continue;
      if (name === "type") drawTypes(filters.family ?? "");
      boxes[name].value = filters[name] ?? "";
    }
    clear.hidden = !hasFilters(filters);
    setChildren(count, searched);
  }

  return { element, show: showFilters };
}

const renderOptions = (all, values) => [createElement("option", { value: "" }, all), values.map((value) => createElement("option", { value }, value))];

export const readEventFilters = (query) => Object.fromEntries(NAMES.filter((name) => query.get(name)).map((name) => [name, query.get(name)]));

export const hasFilters = (filters) => Object.keys(filters).length > 0;

export function matchEvent(envelope, { family, type, turn, text }) {
  const name = formatEventName(envelope.type);
  if (family && getEventFamily(name) !== family) return false;
  if (type && name !== type) return false;
  if (turn && findTurn(envelope.data) !== Number(turn)) return false;
  return !text || hasText(envelope, text.toLowerCase());
}

// The turn of an event; a call is named by its turn and its number within it.
function findTurn({ turn, call }) {
  if (turn !== undefined && turn !== null) return turn;
  return typeof call === "string" ? Number(call.split(".")[0]) : null;
}

const hasText = (envelope, text) => [formatEventName(envelope.type), envelope.actor, describeEvent(envelope), JSON.stringify(envelope.data)]
  .some((each) => each.toLowerCase().includes(text));
