// The tabs beside a conversation; each links to its view of the selected call.

import { createElement, setChildren } from "../app/dom.js";
import { linkToCall, linkToDiff, linkToGrowth, linkToPast, linkToSession, linkToVerification, linkToVersion, linkToWhatIf, linkToWhy } from "../app/links.js";

// The views of a whole session that an address can name.
export const SESSION_VIEWS = ["growth", "proof", "what-if", "version"];

export function createSessionTabs(session) {
  const element = createElement("nav", { class: "tabs" });

  function drawTabs(path, other, calls, sequence) {
    const [view, item, mode, otherItem] = path;
    const call = view === "calls" ? item : null;
    const selectedCall = (otherItem && !other ? otherItem : call) ?? calls.at(-1)?.call;
    const place = calls.findIndex((each) => each.call === selectedCall);
    const before = mode === "diff" ? call : calls[Math.max(0, place - 1)]?.call;
    const renderTab = (name, href, current) => createElement("a", { href, "aria-current": current ? "page" : null }, name);
    setChildren(element,
      renderTab("Record", linkToSession(session), !call && view !== "at" && !SESSION_VIEWS.includes(view)),
      selectedCall ? renderTab("Prompts", linkToCall(session, selectedCall), call && !mode) : null,
      selectedCall ? renderTab("Why", linkToWhy(session, selectedCall), mode === "why") : null,
      calls.length > 1 ? renderTab("Difference", mode === "diff" ? location.hash : linkToDiff(session, before, selectedCall), mode === "diff") : null,
      renderTab("Past", linkToPast(session, sequence), view === "at"),
      selectedCall ? renderTab("What if", view === "what-if" ? location.hash : linkToWhatIf(session), view === "what-if") : null,
      selectedCall ? renderTab("Growth", linkToGrowth(session), view === "growth") : null,
      renderTab("Proof", linkToVerification(session), view === "proof"),
      renderTab("Version", linkToVersion(session), view === "version"));
    element.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  return { element, draw: drawTabs };
}
