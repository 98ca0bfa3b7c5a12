// The filters of the session list, those of `GET /v1/sessions`. They are part of the address, so that links
// and the back button keep them.

import { createElement, setChildren } from "../app/dom.js";
import { formatDateTime, formatDigest } from "../app/formatting.js";
import { fetchJson } from "../app/http_client.js";
import { linkToSessions } from "../app/links.js";

const CHOICES = ["order", "blueprint", "profile", "phase", "label", "open", "failed", "redacted"];
// Set by links of other views; the bar shows them as words.
const LINKED = ["origin", "digest", "near", "failure", "since", "until"];
const ATTRIBUTE = "attribute.";
const ORDERS = [["", "newest first"], ["last", "latest activity"], ["near", "nearest to the budget"], ["cost", "dearest"], ["failed", "most failed turns"]];
const STATES = [["", "open or closed"], ["true", "open"], ["false", "closed"]];

// The query of the request. The address may have other parameters; these narrow the list.
export function readListFilters(query) {
  const names = [...query.keys()].filter((name) => ["q", ...CHOICES, ...LINKED].includes(name) || name.startsWith(ATTRIBUTE));
  return Object.fromEntries(names.map((name) => [name, query.get(name)]).filter(([, value]) => value));
}

export function createListFilters(goTo) {
  const q = createElement("input", { type: "search", class: "search", placeholder: "Search sessions by id, title or first words", "aria-label": "Search", on: { input: () => applyBoxes(true) } });
  const order = createElement("select", { name: "order", "aria-label": "Order", on: { change: () => applyBoxes(false) } }, ORDERS.map(([value, name]) => createElement("option", { value }, name)));
  const blueprint = createElement("select", { on: { change: () => applyBoxes(false) } });
  const profile = createElement("input", { size: 10, on: { change: () => applyBoxes(false) } });
  const phase = createElement("input", { size: 10, on: { change: () => applyBoxes(false) } });
  const label = createElement("input", { size: 10, on: { change: () => applyBoxes(false) } });
  const open = createElement("select", { on: { change: () => applyBoxes(false) } }, STATES.map(([value, name]) => createElement("option", { value }, name)));
  const attribute = createElement("input", { size: 16, placeholder: "name=value", on: { change: () => applyBoxes(false) } });
  const failed = createElement("input", { type: "checkbox", on: { change: () => applyBoxes(false) } });
  const redacted = createElement("input", { type: "checkbox", on: { change: () => applyBoxes(false) } });
  const count = createElement("span", { class: "faint", role: "status" });
  const linked = createElement("p", { class: "only" });
  const clear = createElement("button", { type: "button", class: "quiet", on: { click: () => goTo({}, false) } }, "clear filters");
  const summary = createElement("summary", {}, "filters");
  const renderLabel = (name, box) => createElement("label", {}, `${name} `, box);
  const more = createElement("details", { class: "more", open: !matchMedia("(max-width: 900px)").matches }, summary,
    createElement("div", {}, renderLabel("blueprint", blueprint), renderLabel("profile", profile), renderLabel("phase", phase), renderLabel("label", label), renderLabel("state", open),
      renderLabel("attribute", attribute), createElement("label", {}, failed, "with a failed turn"), createElement("label", {}, redacted, "with a withheld reply"), clear));
  const element = createElement("form", { class: "filters", role: "search", "aria-label": "Filter the sessions",
    on: { submit: (event) => { event.preventDefault(); applyBoxes(false); } } }, createElement("div", { class: "tools" }, q, order, count), more, linked);
  const boxes = { q, order, blueprint, profile, phase, label, open };
  let shown = {};

  drawBlueprints([]);
  fetchJson("/v1/blueprints").then(({ blueprints }) => drawBlueprints(blueprints.map((each) => each.blueprint))).catch(() => {});

  function drawBlueprints(names) {
    const chosen = shown.blueprint ?? "";
    const known = [...new Set([...names, ...[...blueprint.options].map((each) => each.value), chosen])].filter(Boolean).sort();
    setChildren(blueprint, createElement("option", { value: "" }, "any"), known.map((name) => createElement("option", { value: name }, name)));
    blueprint.value = chosen;
  }

  function applyBoxes(isTyping) {
    const typed = Object.fromEntries(Object.entries(boxes).map(([name, box]) => [name, box.value.trim()]));
    const [name, ...value] = attribute.value.split("=");
    const byAttribute = name.trim() && value.length ? { [ATTRIBUTE + name.trim()]: value.join("=").trim() } : {};
    const kept = Object.fromEntries(LINKED.map((each) => [each, shown[each]]));
    const filters = { ...kept, ...typed, ...byAttribute, failed: failed.checked ? "true" : "", redacted: redacted.checked ? "true" : "" };
    goTo(Object.fromEntries(Object.entries(filters).filter(([, each]) => each)), isTyping);
  }

  function showFilters(filters) {
    shown = filters;
    drawBlueprints([]);
    for (const [name, box] of Object.entries(boxes)) if (box !== document.activeElement) box.value = filters[name] ?? "";
    const found = Object.keys(filters).find((name) => name.startsWith(ATTRIBUTE));
    if (attribute !== document.activeElement) attribute.value = found ? `${found.slice(ATTRIBUTE.length)}=${filters[found]}` : "";
    [failed.checked, redacted.checked] = [filters.failed === "true", filters.redacted === "true"];
    const active = Object.keys(filters).filter((name) => !["q", "order"].includes(name));
    summary.textContent = active.length ? `filters (${active.length})` : "filters";
    clear.hidden = !Object.keys(filters).length;
    setChildren(linked, renderLinkedFilters(filters));
    linked.hidden = !linked.firstChild;
  }

  return { element, show: showFilters, showCount: (text) => setChildren(count, text) };
}

function renderLinkedFilters({ origin, digest, near, failure, since, until }) {
  const texts = [origin ? `from ${origin}` : null, digest ? `pinned to ${formatDigest(digest)}` : null, near ? `with ${near}% of their budget or more` : null, failure ? `with a turn that failed: ${failure}` : null,
    since ? `active since ${formatDateTime(since)}` : null, until ? `opened before ${formatDateTime(until)}` : null].filter(Boolean);
  return texts.length ? [`only those ${texts.join(", ")} · `, createElement("a", { href: linkToSessions() }, "all sessions")] : null;
}
