// References to events: the event name, time and actor, each with a link to the event.

import { toEvent } from "/page/address.js";
import { make } from "/page/dom.js";
import { familyOf } from "/page/sentences.js";
import { clock, day } from "/page/words.js";

const LIBRARY = /^segments-/;

export function cause(by, session) {
  const name = make("span", { class: `event-name family-${familyOf(by.event)}` }, by.event);
  const when = make("span", { class: "faint", title: day(by.time) }, ` ${clock(by.time)} by ${by.actor}`);
  if (LIBRARY.test(by.event)) return make("span", { class: "cause" }, `library ${by.sequence} `, name, when);
  const elsewhere = by.session === session ? "" : `${by.session} · `;
  return make("span", { class: "cause" },
    make("a", { href: toEvent(by.session, by.sequence) }, `${elsewhere}event ${by.sequence} `, name), when);
}

// Of more than four events, only the first and the last are shown.
export function causes(all, session) {
  if (all.length <= 4) return all.map((by) => cause(by, session));
  return [cause(all[0], session), make("span", { class: "faint" }, ` … ${all.length - 2} more … `), cause(all.at(-1), session)];
}

export const turns = (first, last) => (first === last ? `turn ${first}` : `turns ${first} to ${last}`);
