// The conversation as it was after an event: read-only, with links to the events before and after.

import { toAt, toSession } from "/page/address.js";
import { answer, question } from "/page/conversation.js";
import { make, show } from "/page/dom.js";
import { forkButton } from "/page/forks.js";
import { get, ofSession } from "/page/http.js";
import { inOrder, threshold } from "/page/stays.js";
import { work } from "/page/work.js";

export function pastPane(session) {
  const list = make("div", { class: "turns" });
  const which = make("strong");
  const last = make("span", { class: "faint" });
  const back = make("a", { title: "one event earlier" }, "‹");
  const on = make("a", { title: "one event later" }, "›");
  // The slider is created once, because replacing it would end a drag.
  const reach = make("input", { type: "range", min: 1, "aria-label": "as it was after event",
    on: { input: () => location.replace(toAt(session, reach.value)) } });
  const bar = make("div", { class: "past" }, make("span", {}, "as it was after ", which, last), back, reach, on,
    make("a", { class: "now", href: toSession(session) }, "now"), forkButton(session, () => Number(reach.value)));
  const element = make("section", { class: "chat" }, bar, make("div", { class: "scroll" }, list));
  let asked = null;

  async function showAt(sequence, head) {
    place(sequence, head);
    if (asked === sequence) return;
    if (asked === null) show(list, make("p", { class: "faint" }, "reading back …"));
    asked = sequence;
    try {
      const told = await get(ofSession(session, "history"), { at: sequence });
      if (asked === sequence) draw(told);
    } catch (problem) {
      if (asked === sequence) show(list, make("p", { class: "fault" }, problem.message));
    }
  }

  function draw({ turns, stays }) {
    show(list);
    inOrder(turns, stays, (each) => list.append(turn(session, each)), (stay) => list.append(threshold(stay)));
  }

  function place(sequence, head) {
    which.textContent = `event ${sequence}`;
    last.textContent = ` of ${head}`;
    reach.max = head;
    reach.value = sequence;
    back.href = toAt(session, Math.max(1, sequence - 1));
    on.href = toAt(session, Math.min(head, sequence + 1));
  }

  return { element, show: showAt };
}

function turn(session, told) {
  const marks = [told.excluded && "excluded", told.purged && "purged", told.redacted && "redacted", told.status !== "completed" && told.status].filter(Boolean);
  return make("article", { class: `turn ${told.status}${told.excluded ? " excluded" : ""}` }, question(told), work(session, told), answer(told),
    make("footer", {}, make("span", { class: "faint" }, `turn ${told.turn}`), marks.map((mark) => make("span", { class: `badge ${mark}` }, mark))));
}
