// The session list: newest first or in another order, searched while the user types, refreshed every few seconds.

import { createElement, setChildren } from "../app/dom.js";
import { formatAge, formatSessionCost, formatCount, formatDateTime, formatNumber, formatOneLine, formatPercent, formatTokenSum } from "../app/formatting.js";
import { describeProblem, fetchJson } from "../app/http_client.js";
import { linkToSession, linkToSessions, readLocation } from "../app/links.js";
import { makeFocusRove } from "../app/roving_focus.js";
import { createListFilters, readListFilters } from "./list_filters.js";

const REFRESH_MS = 4000;
const PAGE_SIZE = 50;
// The share of its budget from which a session is marked.
const CROWDED = 0.9;

// Where each list was left, and the latest one, to which a session leads back.
const positions = new Map();
let lastAddress = linkToSessions();

export const getListAddress = () => lastAddress;

export function createSessionList() {
  const filterBar = createListFilters(goToFilters);
  const list = createElement("div", { class: "list" });
  const foot = createElement("nav", { class: "pages", "aria-label": "Pages" });
  const element = createElement("section", { class: "sessions", on: { scroll: () => positions.set(shownAddress, element.scrollTop) } },
    createElement("h1", { class: "unseen" }, "Sessions"), filterBar.element, list, foot);
  let requests = 0;
  let shownAddress = null;
  makeFocusRove(list, "tbody tr");

  // Typing changes the address in place; a choice is a step that the back button undoes.
  function goToFilters(filters, isTyping) {
    if (!isTyping) location.hash = linkToSessions(filters);
    else {
      lastAddress = linkToSessions(filters);
      history.replaceState(null, "", lastAddress);
      filterBar.show(filters);
      refresh();
    }
  }

  async function refresh() {
    const { query } = readLocation();
    const number = (requests += 1);
    try {
      const page = await fetchJson("/v1/sessions", { ...readListFilters(query), before: query.get("before"), limit: PAGE_SIZE });
      if (number === requests) drawPage(page, query);
    } catch (problem) {
      if (number === requests) setChildren(list, createElement("p", { class: "fault", role: "alert" }, describeProblem(problem)));
    }
  }

  function drawPage(page, query) {
    const filters = readListFilters(query);
    filterBar.showCount(page.sessions.length ? formatCount(page.sessions.length, "session") + (page.next ? " of more" : "") : "");
    setChildren(list, page.sessions.length ? renderTable(page.sessions) : renderEmptyList(filters));
    setChildren(foot, page.next ? createElement("a", { href: linkToSessions({ ...filters, before: page.next }) }, filters.order ? "more →" : "older →") : null);
    if (shownAddress === lastAddress) return;
    shownAddress = lastAddress;
    element.scrollTop = positions.get(shownAddress) ?? 0;
  }

  function renderTable(sessions) {
    const columns = ["session", "blueprint", "turns", "last activity", "budget", "tokens", "cost"];
    const head = createElement("tr", {}, columns.map((name, place) => createElement("th", { scope: "col", class: place === 2 || place > 3 ? "number" : null }, name)));
    return createElement("table", {}, createElement("thead", {}, head), createElement("tbody", {}, sessions.map(renderRow)));
  }

  function renderRow(session) {
    const marks = [session.stopped && "stopped", session.redacted && "redacted", session.closed_at && "closed"].filter(Boolean);
    return createElement("tr", { on: { click: (event) => { if (!event.target.closest("a")) location.hash = linkToSession(session.session); } } },
      createElement("td", { class: "title" },
        createElement("a", { href: linkToSession(session.session) }, session.title ? formatOneLine(session.title) : "(nothing said yet)"),
        session.labels.map((label) => createElement("a", { class: "badge label", href: linkToSessions({ label }), title: "The sessions with this label" }, formatOneLine(label))),
        session.stray_messages ? createElement("span", { class: "badge stray", title: "They are no events of the session, and are passed over" }, formatCount(session.stray_messages, "stray message")) : null,
        marks.map((mark) => createElement("span", { class: `badge ${mark}`, title: mark === "stopped" ? session.stopped : null }, mark)),
        createElement("div", { class: "id" }, session.session)),
      createElement("td", {}, session.blueprint, createElement("span", { class: "faint" }, ` v${session.version}`)),
      createElement("td", { class: "number", "data-label": session.turns === 1 ? "turn" : "turns" }, formatNumber(session.turns)),
      createElement("td", { title: formatDateTime(session.last_at) }, formatAge(session.last_at)),
      createElement("td", { class: session.budget_share > CROWDED ? "number bad" : "number", "data-label": "of the budget", title: "How much of its budget the last prompt took" },
        session.budget_share === null ? "" : formatPercent(session.budget_share)),
      createElement("td", { class: "number", "data-label": "tokens" }, formatTokenSum(session.usage)),
      createElement("td", { class: "number", "data-label": "cost", title: session.children_usage ? "Its own calls + those of the children that it asked" : null }, formatSessionCost(session)));
  }

  const timer = setInterval(() => document.hidden || refresh(), REFRESH_MS);
  return {
    element,
    skips: { "the sessions": () => list.querySelector("tbody a") ?? list, "the search": () => element.querySelector(".search") },
    close: () => clearInterval(timer),
    go: (_, query) => {
      lastAddress = location.hash || linkToSessions();
      filterBar.show(readListFilters(query));
      document.title = "Sessions · Turnlog";
      refresh();
    },
  };
}

function renderEmptyList({ q, ...others }) {
  if (Object.keys(others).length) return createElement("p", { class: "empty" }, "There is no such session.");
  if (q) return createElement("p", { class: "empty" }, `No session has “${q}” in its id, its title or its first words.`);
  const command =
    `curl ${location.origin}/v1/sessions -H 'Content-Type: application/json' \\\n  -d '{"blueprint": "assistant"}'`;
  return createElement("div", { class: "empty" }, createElement("p", {}, "No session is open yet. This opens one:"), createElement("pre", {}, command));
}
