// References to events: the event name, time and actor, each with a link to the event.

import { createElement } from "../app/dom.js";
import { formatDateTime, formatTime } from "../app/formatting.js";
import { linkToEvent } from "../app/links.js";
import { getEventFamily } from "./event_sentences.js";

const LIBRARY_EVENT = /^segments-/;

export function renderEventLink(source, session) {
  const name = createElement("span", { class: `event-name family-${getEventFamily(source.event)}` }, source.event);
  const timeAndActor = createElement("span", { class: "faint", title: formatDateTime(source.time) }, ` ${formatTime(source.time)} by ${source.actor}`);
  if (LIBRARY_EVENT.test(source.event)) return createElement("span", { class: "cause" }, `library ${source.sequence} `, name, timeAndActor);
  const otherSession = source.session === session ? "" : `${source.session} · `;
  return createElement("span", { class: "cause" },
    createElement("a", { href: linkToEvent(source.session, source.sequence) }, `${otherSession}event ${source.sequence} `, name), timeAndActor);
}

// Of more than four events, only the first and the last are shown.
export function renderEventLinks(events, session) {
  if (events.length <= 4) return events.map((source) => renderEventLink(source, session));
  return [renderEventLink(events[0], session), createElement("span", { class: "faint" }, ` … ${events.length - 2} more … `), renderEventLink(events.at(-1), session)];
}

export const formatTurnRange = (first, last) => (first === last ? `turn ${first}` : `turns ${first} to ${last}`);
