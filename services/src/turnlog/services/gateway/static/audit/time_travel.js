// The conversation as it was after an event: read-only, with links to the events before and after.

import { createElement, setChildren } from "../app/dom.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { linkToPast, linkToSession } from "../app/links.js";
import { renderInput, renderReply } from "../session/conversation.js";
import { drawInOrder, renderPhaseDivider } from "../session/phase_dividers.js";
import { createForkButton } from "../session/session_forks.js";
import { renderTurnActivity } from "../session/turn_activity.js";

export function createTimeTravel(session) {
  const list = createElement("div", { class: "turns" });
  const position = createElement("strong");
  const last = createElement("span", { class: "faint" });
  const previous = createElement("a", { title: "one event earlier" }, "‹");
  const next = createElement("a", { title: "one event later" }, "›");
  // The slider is created once, because replacing it would end a drag.
  const slider = createElement("input", { type: "range", min: 1, "aria-label": "as it was after event",
    on: { input: () => location.replace(linkToPast(session, slider.value)) } });
  const toolbar = createElement("div", { class: "past" }, createElement("span", {}, "as it was after ", position, last), previous, slider, next,
    createElement("a", { class: "now", href: linkToSession(session) }, "now"), createForkButton(session, () => Number(slider.value)));
  const element = createElement("section", { class: "chat" }, toolbar, createElement("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Conversation as it was" }, list));
  let shownSequence = null;

  async function showHistory(sequence, head) {
    updatePosition(sequence, head);
    if (shownSequence === sequence) return;
    if (shownSequence === null) setChildren(list, createElement("p", { class: "faint" }, "reading back …"));
    shownSequence = sequence;
    try {
      const history = await fetchJson(buildSessionPath(session, "history"), { at: sequence });
      if (shownSequence === sequence) drawHistory(history);
    } catch (problem) {
      if (shownSequence === sequence) setChildren(list, createElement("p", { class: "fault" }, problem.message));
    }
  }

  function drawHistory({ turns, stays }) {
    setChildren(list);
    drawInOrder(turns, stays, (each) => list.append(renderTurn(session, each)), (stay) => list.append(renderPhaseDivider(stay)));
  }

  function updatePosition(sequence, head) {
    position.textContent = `event ${sequence}`;
    last.textContent = ` of ${head}`;
    slider.max = head;
    slider.value = sequence;
    previous.href = linkToPast(session, Math.max(1, sequence - 1));
    next.href = linkToPast(session, Math.min(head, sequence + 1));
  }

  return { element, show: showHistory };
}

function renderTurn(session, turn) {
  const marks = [turn.excluded && "excluded", turn.purged && "purged", turn.redacted && "redacted", turn.status !== "completed" && turn.status].filter(Boolean);
  return createElement("article", { class: `turn ${turn.status}${turn.excluded ? " excluded" : ""}` }, renderInput(session, turn), renderTurnActivity(session, turn), renderReply(session, turn),
    createElement("footer", {}, createElement("span", { class: "faint" }, `turn ${turn.turn}`), marks.map((mark) => createElement("span", { class: `badge ${mark}` }, mark))));
}
