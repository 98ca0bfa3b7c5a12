// The tabs beside a conversation; each links to its view of the selected call.

import { toAt, toCall, toDiff, toGrowth, toProof, toSession, toVersion, toWhatIf, toWhy } from "/page/address.js";
import { make, show } from "/page/dom.js";

// The views of a whole session that an address can name.
export const WHOLE = ["growth", "proof", "what-if", "version"];

export function sessionTabs(session) {
  const element = make("nav", { class: "tabs" });

  function draw(rest, other, calls, sequence) {
    const [what, which, how, second] = rest;
    const call = what === "calls" ? which : null;
    const mine = (second && !other ? second : call) ?? calls.at(-1)?.call;
    const place = calls.findIndex((each) => each.call === mine);
    const before = how === "diff" ? call : calls[Math.max(0, place - 1)]?.call;
    const tab = (name, href, current) => make("a", { href, "aria-current": current ? "page" : null }, name);
    show(element,
      tab("Record", toSession(session), !call && what !== "at" && !WHOLE.includes(what)),
      mine ? tab("Prompts", toCall(session, mine), call && !how) : null,
      mine ? tab("Why", toWhy(session, mine), how === "why") : null,
      calls.length > 1 ? tab("Difference", how === "diff" ? location.hash : toDiff(session, before, mine), how === "diff") : null,
      tab("Past", toAt(session, sequence), what === "at"),
      mine ? tab("What if", what === "what-if" ? location.hash : toWhatIf(session), what === "what-if") : null,
      mine ? tab("Growth", toGrowth(session), what === "growth") : null,
      tab("Proof", toProof(session), what === "proof"),
      tab("Version", toVersion(session), what === "version"));
    element.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  return { element, draw };
}
