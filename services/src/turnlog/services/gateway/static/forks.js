// Forks: continue a session from any of its events; the session itself does not change. The origin and
// the forks of a session are shown as links.

import { to, toAt, toSession } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { get, ofSession, post } from "/page/http.js";
import { counted } from "/page/words.js";

const MOST = 500;

export function forkButton(session, sequence) {
  const button = make("button", { class: "quiet fork", type: "button", title: "A new session that goes on from here; this one stays as it is", on: { click: fork } }, "fork here");
  const fault = make("span", { class: "fault" });

  async function fork() {
    button.disabled = true;
    try {
      const made = await post(ofSession(session, "fork"), { at: sequence() });
      location.hash = toSession(made.session);
    } catch (problem) {
      show(fault, [problem.message, problem.fix].filter(Boolean).join(" · "));
    }
    button.disabled = false;
  }

  return [button, fault];
}

export const forksOf = async (session) => (await get("/v1/sessions", { origin: session, limit: MOST })).sessions.length;

export function kin(session, origin, forks) {
  return [
    origin ? [" · goes on from ", make("a", { href: toAt(origin.session, origin.sequence) }, `${origin.session}, event ${origin.sequence}`)] : null,
    forks ? [" · ", make("a", { href: to([], { origin: session }) }, counted(forks, "fork"))] : null,
  ];
}
