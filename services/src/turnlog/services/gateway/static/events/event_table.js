// The event table of a session, with the stored envelope of each event.

import { createElement, setChildren } from "../app/dom.js";
import { renderFoldedText } from "../app/folding.js";
import { formatDateTime, formatTime } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { linkToEvent, linkToPast, linkToSession } from "../app/links.js";
import { EVENT_TEMPLATES } from "./event_catalogue.js";
import { describeEvent, formatEventName, getEventFamily } from "./event_sentences.js";

const PAGE_SIZE = 200;
export function createEventTable(session) {
  const body = createElement("tbody");
  const columns = ["seq", "time", "event", "actor", "what happened"];
  const earlier = createElement("button", { class: "quiet earlier", type: "button", hidden: true, on: { click: () => loadEarlier() } }, "earlier events");
  const table = createElement("table", { class: "events" },
    createElement("thead", {}, createElement("tr", {}, columns.map((name) => createElement("th", {}, name)))), body);
  const element = createElement("div", { class: "record scroll" }, earlier, table);
  const rows = new Map();
  let first = Infinity;
  let opened = null;

  function renderRow(envelope) {
    const name = formatEventName(envelope.type);
    const line = createElement("tr", { class: `event family-${getEventFamily(name)}`, on: { click: () => toggleEvent(envelope.sequence) } },
      createElement("td", { class: "number" }, String(envelope.sequence)),
      createElement("td", { class: "time", title: formatDateTime(envelope.time) }, formatTime(envelope.time)),
      createElement("td", {}, createElement("a", { class: "event-name", href: linkToEvent(session, envelope.sequence) }, name)),
      createElement("td", { class: "actor" }, envelope.actor),
      createElement("td", { class: "sentence" }, describeEvent(envelope)));
    rows.set(envelope.sequence, { line, envelope });
    first = Math.min(first, envelope.sequence);
    return line;
  }

  function toggleEvent(sequence) {
    if (getSelection()?.type === "Range") return;
    location.hash = opened?.sequence === sequence ? linkToSession(session) : linkToEvent(session, sequence);
  }

  async function loadEarlier() {
    const page = await fetchJson(buildSessionPath(session, "events"), { after: Math.max(0, first - 1 - PAGE_SIZE), limit: PAGE_SIZE });
    const older = page.events.filter((envelope) => envelope.sequence < first);
    body.prepend(...older.map(renderRow));
    earlier.hidden = first === 1;
  }

  function openEvent(sequence) {
    opened?.detail.remove();
    opened?.line.classList.remove("open");
    opened = null;
    const row = rows.get(sequence);
    if (!row) return;
    const { line, envelope } = row;
    const detail = createElement("tr", { class: "detail" },
      createElement("td", { colspan: columns.length },
        createElement("p", { class: "links" }, createElement("a", { href: linkToPast(session, sequence) }, "the conversation as it was after this event")),
        renderFoldedText(`${session} event ${sequence}`, JSON.stringify(envelope, null, 2), {}, "pre")));
    line.after(detail);
    line.classList.add("open");
    detail.scrollIntoView({ block: "nearest" });
    line.scrollIntoView({ block: "nearest" });
    opened = { sequence, line, detail };
  }

  const scrollToEnd = () => { element.scrollTop = element.scrollHeight; };

  return {
    element, open: openEvent, atEnd: scrollToEnd,
    // The page subscribes to the event types of this release and receives no others.
    listeners: (handleEvent) => Object.fromEntries(Object.keys(EVENT_TEMPLATES).map((name) => [name, (event) => handleEvent(JSON.parse(event.data))])),
    load: (events) => {
      setChildren(body, events.map(renderRow));
      earlier.hidden = first === 1;
    },
    add: (envelope) => {
      if (rows.has(envelope.sequence)) return;
      const isNearEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 60;
      const line = renderRow(envelope);
      line.classList.add("new");
      body.append(line);
      if (isNearEnd && !opened) scrollToEnd();
    },
  };
}
