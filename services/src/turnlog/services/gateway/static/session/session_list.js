// The session list: newest first, searched while the user types, refreshed every few seconds.

import { createElement, setChildren } from "../app/dom.js";
import { formatAge, formatCostSum, formatCount, formatDateTime, formatDigest, formatNumber, formatOneLine, formatTokenSum } from "../app/formatting.js";
import { fetchJson } from "../app/http_client.js";
import { linkTo, linkToSession, readLocation } from "../app/links.js";

const REFRESH_MS = 4000;
const PAGE_SIZE = 50;

export function createSessionList() {
  const search = createElement("input", {
    type: "search", class: "search", placeholder: "Search sessions by id or first words", "aria-label": "Search",
    on: { input: () => history.replaceState(null, "", linkTo([], { ...readFilters(readLocation().query), q: search.value })) || refresh() },
  });
  const filterLine = createElement("p", { class: "only" });
  const count = createElement("span", { class: "faint" });
  const list = createElement("div", { class: "list" });
  const foot = createElement("nav", { class: "pages" });
  const element = createElement("section", { class: "sessions" }, createElement("div", { class: "tools" }, search, count), filterLine, list, foot);
  let requests = 0;

  async function refresh() {
    const { query } = readLocation();
    const number = (requests += 1);
    try {
      const page = await fetchJson("/v1/sessions", { ...readFilters(query), q: query.get("q") || null, before: query.get("before"), limit: PAGE_SIZE });
      if (number !== requests || list.contains(document.activeElement)) return;
      drawPage(page, query);
    } catch (problem) {
      if (number === requests) setChildren(list, createElement("p", { class: "fault" }, `${problem.message}. ${problem.fix ?? ""}`));
    }
  }

  function drawPage(page, query) {
    setChildren(count, page.sessions.length ? formatCount(page.sessions.length, "session") + (page.next ? " of more" : "") : "");
    setChildren(filterLine, renderFilters(query));
    setChildren(list, page.sessions.length ? renderTable(page.sessions) : renderEmptyList(query));
    setChildren(foot, page.next ? createElement("a", { href: linkTo([], { ...readFilters(query), q: query.get("q"), before: page.next }) }, "older →") : null);
  }

  function renderTable(sessions) {
    const columns = ["session", "blueprint", "turns", "last activity", "tokens", "cost"];
    const head = createElement("tr", {}, columns.map((name, place) => createElement("th", { class: place === 2 || place > 3 ? "number" : null }, name)));
    return createElement("table", {}, createElement("thead", {}, head), createElement("tbody", {}, sessions.map(renderRow)));
  }

  function renderRow(session) {
    const marks = [session.redacted && "redacted", session.closed_at && "closed"].filter(Boolean);
    return createElement("tr", { on: { click: () => { location.hash = linkToSession(session.session); } } },
      createElement("td", { class: "title" },
        createElement("a", { href: linkToSession(session.session) }, session.title ? formatOneLine(session.title) : "(nothing said yet)"),
        marks.map((mark) => createElement("span", { class: `badge ${mark}` }, mark)),
        createElement("div", { class: "id" }, session.session)),
      createElement("td", {}, session.blueprint, createElement("span", { class: "faint" }, ` v${session.version}`)),
      createElement("td", { class: "number" }, formatNumber(session.turns)),
      createElement("td", { title: formatDateTime(session.last_at) }, formatAge(session.last_at)),
      createElement("td", { class: "number" }, formatTokenSum(session.usage)),
      createElement("td", { class: "number" }, formatCostSum(session.usage.cost)));
  }

  const timer = setInterval(() => document.hidden || refresh(), REFRESH_MS);
  return {
    element,
    close: () => clearInterval(timer),
    go: (_, query) => {
      if (document.activeElement !== search) search.value = query.get("q") ?? "";
      document.title = "Turnlog";
      refresh();
    },
  };
}

// The address may have other parameters; these narrow the list.
const readFilters = (query) => Object.fromEntries(["origin", "digest", "open"].filter((name) => query.has(name)).map((name) => [name, query.get(name)]));

function renderFilters(query) {
  const { origin, digest, open } = readFilters(query);
  const filterTexts = [origin ? `forks of ${origin}` : null, digest ? `pinned to ${formatDigest(digest)}` : null, { true: "still open", false: "closed" }[open]].filter(Boolean);
  return filterTexts.length ? [`only those ${filterTexts.join(", ")} · `, createElement("a", { href: linkTo([]) }, "all sessions")] : null;
}

function renderEmptyList(query) {
  const searchText = query.get("q");
  if (renderFilters(query)) return createElement("p", { class: "empty" }, "There is no such session.");
  if (searchText) return createElement("p", { class: "empty" }, `No session has “${searchText}” in its id or its first words.`);
  const command =
    `curl ${location.origin}/v1/sessions -H 'Content-Type: application/json' \\\n  -d '{"blueprint": "assistant"}'`;
  return createElement("div", { class: "empty" }, createElement("p", {}, "No session is open yet. This opens one:"), createElement("pre", {}, command));
}
