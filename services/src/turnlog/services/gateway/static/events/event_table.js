// The event table of a session, with the stored envelope of each event. Filters hide rows; the event that
// the address names is shown in any case.

import { createElement, setChildren } from "../app/dom.js";
import { renderFoldedText } from "../app/folding.js";
import { formatCount, formatDateTime, formatNumber, formatTime } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { restoreScroll } from "../app/kept_place.js";
import { linkTo, linkToCall, linkToPast, linkToTimeline, readLocation } from "../app/links.js";
import { makeFocusRove } from "../app/roving_focus.js";
import { EVENT_TEMPLATES } from "./event_catalogue.js";
import { createEventFilters, hasFilters, matchEvent, readEventFilters } from "./event_filters.js";
import { describeEvent, formatEventName, getEventFamily } from "./event_sentences.js";

const PAGE_SIZE = 200;
const SEARCH_PAGE_SIZE = 1000;
const END_DISTANCE = 60;
const REDACTIONS = ["reply-redacted", "text-redacted"];

export function createEventTable(session) {
  const body = createElement("tbody");
  const columns = ["seq", "time", "event", "actor", "what happened"];
  const earlier = createElement("button", { class: "quiet earlier", type: "button", hidden: true, on: { click: () => loadEarlier() } });
  const table = createElement("table", { class: "events" },
    createElement("thead", {}, createElement("tr", {}, columns.map((name) => createElement("th", { scope: "col" }, name)))), body);
  const scroll = createElement("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Events", on: { scroll: noteEnd } }, earlier, table);
  const filterBar = createEventFilters(goToFilters);
  const element = createElement("div", { class: "record" }, filterBar.element, scroll);
  const rows = new Map();
  let first = Infinity;
  let filters = {};
  let opened = null;
  let wantedSequence = null;
  let isAtEnd = true;
  makeFocusRove(body, ".event", { startsAtEnd: true });

  function renderRow(envelope) {
    const name = formatEventName(envelope.type);
    const link = createElement("a", { class: "event-name", href: linkToRow(envelope.sequence) }, name);
    const line = createElement("tr", { class: `event family-${getEventFamily(name)}`, on: { click: (event) => toggleEvent(event, envelope.sequence) } },
      createElement("td", { class: "number" }, String(envelope.sequence)),
      createElement("td", { class: "time", title: formatDateTime(envelope.time) }, formatTime(envelope.time)),
      createElement("td", {}, link),
      createElement("td", { class: "actor" }, envelope.actor),
      createElement("td", { class: "sentence" }, describeEvent(envelope)));
    rows.set(envelope.sequence, { line, link, envelope });
    line.hidden = !isShown(envelope);
    first = Math.min(first, envelope.sequence);
    return line;
  }

  const linkToRow = (sequence) => linkTo(["sessions", session, "events", sequence], filters);
  const isShown = (envelope) => envelope.sequence === opened?.sequence || matchEvent(envelope, filters);

  function toggleEvent(event, sequence) {
    if (getSelection()?.type === "Range" || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    location.hash = opened?.sequence === sequence ? linkTo(["sessions", session], filters) : linkToRow(sequence);
  }

  // Typing changes the address in place; a choice is a step that the back button undoes.
  function goToFilters(wanted, isTyping) {
    const address = linkTo(readLocation().steps, wanted);
    if (!isTyping) location.hash = address;
    else {
      history.replaceState(null, "", address);
      applyFilters(wanted);
    }
  }

  function applyFilters(wanted) {
    const isSame = new URLSearchParams(wanted).toString() === new URLSearchParams(filters).toString();
    filters = wanted;
    if (!isSame) {
      for (const { line, link, envelope } of rows.values()) {
        line.hidden = !isShown(envelope);
        link.href = linkToRow(envelope.sequence);
      }
      if (isAtEnd && !opened) scrollToEnd();
    }
    drawSearch();
  }

  function drawSearch() {
    const found = [...rows.values()].filter(({ line }) => !line.hidden).length;
    filterBar.show(filters, hasFilters(filters) ? `${formatNumber(found)} of ${formatCount(rows.size, "event")}` : "");
    earlier.hidden = first <= 1 || first === Infinity;
    earlier.textContent = hasFilters(filters) ? `search the ${formatCount(first - 1, "event")} before` : "earlier events";
  }

  async function loadEarlier() {
    const size = hasFilters(filters) ? SEARCH_PAGE_SIZE : PAGE_SIZE;
    await loadFrom(Math.max(1, first - size));
  }

  // Loads the events from a sequence to the first one that is shown.
  async function loadFrom(sequence) {
    const from = first;
    const older = [];
    for (let after = sequence - 1; after < from - 1;) {
      const page = await fetchJson(buildSessionPath(session, "events"), { after, limit: SEARCH_PAGE_SIZE });
      if (!page.events.length) break;
      older.push(...page.events.filter((envelope) => envelope.sequence < from));
      after = page.events.at(-1).sequence;
    }
    if (first !== from) return;
    const height = scroll.scrollHeight;
    body.prepend(...older.map(renderRow));
    scroll.scrollTop += scroll.scrollHeight - height;
    drawSearch();
  }

  // What a redaction withholds goes from the rows that were drawn before it.
  async function refreshRows() {
    for (let after = first - 1, more = true; more;) {
      const page = await fetchJson(buildSessionPath(session, "events"), { after, limit: SEARCH_PAGE_SIZE });
      page.events.filter((envelope) => envelope.withheldby && rows.has(envelope.sequence)).forEach(replaceRow);
      ({ after, more } = page);
    }
  }

  function replaceRow(envelope) {
    const isOpen = opened?.sequence === envelope.sequence;
    if (isOpen) closeEvent();
    rows.get(envelope.sequence).line.replaceWith(renderRow(envelope));
    if (isOpen) showDetail(envelope.sequence);
  }

  function closeEvent() {
    if (!opened) return;
    const { sequence, line, detail } = opened;
    opened = null;
    detail.remove();
    line.classList.remove("open");
    line.hidden = !isShown(rows.get(sequence).envelope);
  }

  async function openEvent(sequence) {
    wantedSequence = sequence;
    applyFilters(readEventFilters(readLocation().query));
    if (opened?.sequence === sequence) return;
    closeEvent();
    if (sequence !== null && sequence < first && first !== Infinity) await loadFrom(sequence);
    if (!opened && wantedSequence === sequence) showDetail(sequence);
    drawSearch();
  }

  function showDetail(sequence) {
    const row = rows.get(sequence);
    if (!row) return;
    const { line, envelope } = row;
    const detail = createElement("tr", { class: "detail" },
      createElement("td", { colspan: columns.length },
        createElement("p", { class: "links" }, createElement("a", { href: linkToPast(session, sequence) }, "the conversation as it was after this event"), renderTurnLinks(session, envelope.data)),
        renderFoldedText(`${session} event ${sequence}`, JSON.stringify(envelope, null, 2), {}, "pre")));
    line.after(detail);
    line.classList.add("open");
    line.hidden = false;
    opened = { sequence, line, detail };
    detail.scrollIntoView({ block: "nearest" });
    line.scrollIntoView({ block: "nearest" });
  }

  const scrollToEnd = () => { scroll.scrollTop = scroll.scrollHeight; };

  function noteEnd() {
    if (scroll.isConnected) isAtEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < END_DISTANCE;
  }

  function restorePlace() {
    if (isAtEnd && !opened) scrollToEnd();
    else restoreScroll(element);
  }

  return {
    element, open: openEvent, restorePlace,
    // The page subscribes to the event types of this release and receives no others.
    listeners: (handleEvent) => Object.fromEntries(Object.keys(EVENT_TEMPLATES).map((name) => [name, (event) => handleEvent(JSON.parse(event.data))])),
    load: (events) => {
      setChildren(body, events.map(renderRow));
      drawSearch();
    },
    add: (envelope) => {
      if (rows.has(envelope.sequence)) return;
      const line = renderRow(envelope);
      line.classList.add("new");
      body.append(line);
      drawSearch();
      if (isAtEnd && !opened) scrollToEnd();
      if (REDACTIONS.includes(formatEventName(envelope.type))) refreshRows();
    },
  };
}

// Where else the turn and the call of an event are shown.
function renderTurnLinks(session, { turn, call }) {
  const isCall = typeof call === "string" && call.includes(".");
  return [
    isCall ? [" · ", createElement("a", { href: linkToCall(session, call) }, `call ${call}`)] : null,
    Number.isInteger(turn) ? [" · ", createElement("a", { href: linkToTimeline(session, turn) }, `timeline of turn ${turn}`)] : null,
  ];
}
