// Events as they are referred to: what happened, when and by whom, each a link to its record.

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

// Of many events the first and the last are named
export function causes(all, session) {
  if (all.length <= 4) return all.map((by) => cause(by, session));
  return [cause(all[0], session), make("span", { class: "faint" }, ` … ${all.length - 2} more … `), cause(all.at(-1), session)];
}

export const turns = (first, last) => (first === last ? `turn ${first}` : `turns ${first} to ${last}`);
