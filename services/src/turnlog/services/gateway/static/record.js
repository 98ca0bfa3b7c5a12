// The event table of a session, with the stored envelope of each event.

import { toAt, toEvent, toSession } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { get, ofSession } from "/page/http.js";
import { familyOf, nameOf, sentence } from "/page/sentences.js";
import { clock, day } from "/page/words.js";

const PAGE = 200;
// The event names to subscribe to; the page does not receive events with other names.
const NAMES = [
  "session-opened", "blueprint-moved", "profile-switched", "session-closed", "prompts-snapshotted", "turn-submitted", "turn-queued", "turn-released",
  "choice-recorded", "turn-completed", "turn-failed", "turn-cancelled", "turn-excluded", "turn-restored",
  "attempt-started", "context-assembled", "attempt-ended", "call-completed", "tools-snapshotted", "plan-made",
  "step-planned", "tool-called", "tool-started", "tool-returned", "reply-redacted", "phase-entered",
  "turn-resolved", "turn-displayed", "reference-updated", "schemas-requested", "summary-begun",
  "history-summarised", "summary-failed", "summary-undone", "memory-purged",
];

export function record(session) {
  const body = make("tbody");
  const heads = ["seq", "time", "event", "actor", "what happened"];
  const earlier = make("button", { class: "quiet earlier", type: "button", hidden: true, on: { click: () => back() } }, "earlier events");
  const table = make("table", { class: "events" },
    make("thead", {}, make("tr", {}, heads.map((name) => make("th", {}, name)))), body);
  const element = make("div", { class: "record scroll" }, earlier, table);
  const rows = new Map();
  let first = Infinity;
  let opened = null;

  function row(envelope) {
    const name = nameOf(envelope.type);
    const line = make("tr", { class: `event family-${familyOf(name)}`, on: { click: () => turnTo(envelope.sequence) } },
      make("td", { class: "number" }, String(envelope.sequence)),
      make("td", { class: "time", title: day(envelope.time) }, clock(envelope.time)),
      make("td", {}, make("a", { class: "event-name", href: toEvent(session, envelope.sequence) }, name)),
      make("td", { class: "actor" }, envelope.actor),
      make("td", { class: "sentence" }, sentence(envelope)));
    rows.set(envelope.sequence, { line, envelope });
    first = Math.min(first, envelope.sequence);
    return line;
  }

  function turnTo(sequence) {
    if (getSelection()?.type === "Range") return;
    location.hash = opened?.sequence === sequence ? toSession(session) : toEvent(session, sequence);
  }

  async function back() {
    const page = await get(ofSession(session, "events"), { after: Math.max(0, first - 1 - PAGE), limit: PAGE });
    const older = page.events.filter((envelope) => envelope.sequence < first);
    body.prepend(...older.map(row));
    earlier.hidden = first === 1;
  }

  function open(sequence) {
    opened?.detail.remove();
    opened?.line.classList.remove("open");
    opened = null;
    const found = rows.get(sequence);
    if (!found) return;
    const { line, envelope } = found;
    const detail = make("tr", { class: "detail" },
      make("td", { colspan: heads.length },
        make("p", { class: "links" }, make("a", { href: toAt(session, sequence) }, "the conversation as it was after this event")),
        make("pre", {}, JSON.stringify(envelope, null, 2))));
    line.after(detail);
    line.classList.add("open");
    detail.scrollIntoView({ block: "nearest" });
    line.scrollIntoView({ block: "nearest" });
    opened = { sequence, line, detail };
  }

  const atEnd = () => { element.scrollTop = element.scrollHeight; };

  return {
    element, open, atEnd,
    listeners: (take) => Object.fromEntries(NAMES.map((name) => [name, (event) => take(JSON.parse(event.data))])),
    begin: (events) => {
      show(body, events.map(row));
      earlier.hidden = first === 1;
    },
    add: (envelope) => {
      if (rows.has(envelope.sequence)) return;
      const near = element.scrollHeight - element.scrollTop - element.clientHeight < 60;
      const line = row(envelope);
      line.classList.add("new");
      body.append(line);
      if (near && !opened) atEnd();
    },
  };
}
