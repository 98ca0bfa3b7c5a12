// Forks: continue a session from any of its events; the session itself does not change. The origin and
// the forks and children of a session are shown as links.

import { createElement, setChildren } from "../app/dom.js";
import { formatCount } from "../app/formatting.js";
import { buildSessionPath, createKeyedSender, describeProblem, fetchJson } from "../app/http_client.js";
import { linkToPast, linkToSession, linkToSessions } from "../app/links.js";

const MAX_DERIVED = 500;

export function createForkButton(session, sequence) {
  const button = createElement("button", { class: "quiet fork", type: "button", title: "A new session that continues from here; this one does not change", on: { click: forkSession } }, "fork here");
  const error = createElement("span", { class: "fault", role: "alert" });
  const sendKeyed = createKeyedSender();

  async function forkSession() {
    button.disabled = true;
    try {
      const created = await sendKeyed("POST", buildSessionPath(session, "fork"), { at: sequence() });
      location.hash = linkToSession(created.session);
    } catch (problem) {
      setChildren(error, describeProblem(problem));
    }
    button.disabled = false;
  }

  return [button, error];
}

export async function countDerived(session) {
  const { sessions } = await fetchJson("/v1/sessions", { origin: session, limit: MAX_DERIVED });
  const forks = sessions.filter((each) => each.origin?.kind === "fork").length;
  return { forks, children: sessions.length - forks };
}

export function renderForkLinks(session, origin, { forks, children }) {
  const counts = [forks ? formatCount(forks, "fork") : null, children ? formatCount(children, "child session") : null].filter(Boolean);
  return [
    origin ? [origin.kind === "fork" ? " · continues from " : " · child of ", createElement("a", { href: linkToPast(origin.session, origin.sequence) }, `${origin.session}, event ${origin.sequence}`)] : null,
    counts.length ? [" · ", createElement("a", { href: linkToSessions({ origin: session }) }, counts.join(" and "))] : null,
  ];
}
