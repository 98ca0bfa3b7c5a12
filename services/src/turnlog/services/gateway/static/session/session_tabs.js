// The tabs beside a conversation; each leads to its view of the selected call. Arrow keys move between the
// tabs, Enter opens one. A tab stays the same element while its address changes, so that it keeps the focus.

import { createElement, setChildren } from "../app/dom.js";
import { makeScrollersFocusable } from "../app/kept_place.js";
import { linkToCall, linkToDiff, linkToGrowth, linkToPast, linkToSession, linkToTimeline, linkToVerification, linkToVersion, linkToWhatIf, linkToWhy } from "../app/links.js";
import { mayDo } from "../app/permissions.js";
import { scrollIntoSight } from "../app/quiet_scrolling.js";
import { makeFocusRove } from "../app/roving_focus.js";

// The views of a whole session that an address can name.
export const SESSION_VIEWS = ["turns", "growth", "proof", "what-if", "version"];
export const PANEL = "session-view";

export function createSessionTabs(session) {
  const element = createElement("div", { class: "tabs", role: "tablist", "aria-label": "Views of the session" });
  const tabs = new Map();
  let recordAddress = linkToSession(session);
  let selectedCall = null;
  let selectedTurn = null;

  // `lastTurn` is null before the first turn.
  function drawTabs(path, other, calls, sequence, lastTurn) {
    const [view, item, mode, otherItem] = path;
    const call = view === "calls" ? item : null;
    selectedCall = (otherItem && !other ? otherItem : call) ?? selectedCall;
    const shownCall = selectedCall ?? calls.at(-1)?.call;
    if (view === "turns") selectedTurn = item;
    else if (call) [selectedTurn] = call.split(".");
    const shownTurn = selectedTurn ?? lastTurn;
    const place = calls.findIndex((each) => each.call === shownCall);
    const before = mode === "diff" ? call : calls[Math.max(0, place - 1)]?.call;
    const isRecord = !call && view !== "at" && !SESSION_VIEWS.includes(view);
    if (isRecord) recordAddress = location.hash;
    showTabs([
      ["Record", recordAddress, isRecord],
      shownCall && mayDo("prompts:read") && ["Prompts", linkToCall(session, shownCall), call && !mode],
      shownTurn && ["Timeline", linkToTimeline(session, shownTurn), view === "turns"],
      shownCall && mayDo("prompts:read") && ["Why", linkToWhy(session, shownCall), mode === "why"],
      calls.length > 1 && mayDo("prompts:read") && ["Difference", mode === "diff" ? location.hash : linkToDiff(session, before, shownCall), mode === "diff"],
      ["Past", linkToPast(session, sequence), view === "at"],
      shownCall && mayDo("prompts:read") && ["What if", view === "what-if" ? location.hash : linkToWhatIf(session), view === "what-if"],
      shownCall && mayDo("figures:read") && ["Growth", linkToGrowth(session), view === "growth"],
      ["Proof", linkToVerification(session), view === "proof"],
      mayDo("library:read") && ["Version", linkToVersion(session), view === "version"],
    ].filter(Boolean));
  }

  function showTabs(wanted) {
    const shown = wanted.map(([name, href, isSelected]) => updateTab(name, href, Boolean(isSelected)));
    const isSame = shown.length === element.childElementCount && shown.every((tab, place) => tab === element.children[place]);
    if (!isSame) showChangedTabs(shown);
    const current = element.querySelector("[aria-current]");
    if (current) scrollIntoSight(current);
  }

  function showChangedTabs(shown) {
    const focused = shown.find((tab) => tab === document.activeElement);
    setChildren(element, shown);
    focused?.focus();
  }

  function updateTab(name, href, isSelected) {
    if (!tabs.has(name)) tabs.set(name, createElement("a", { role: "tab", id: `tab-${tabs.size}`, "aria-controls": PANEL, on: { keydown: openBySpace } }, name));
    const tab = tabs.get(name);
    tab.href = href;
    tab.setAttribute("aria-selected", String(isSelected));
    if (isSelected) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
    return tab;
  }

  function openBySpace(event) {
    if (event.key !== " ") return;
    event.preventDefault();
    event.currentTarget.click();
  }

  // The tab of the view that is shown names its panel.
  function labelPanel(panel) {
    panel.id = PANEL;
    makeScrollersFocusable(panel);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", element.querySelector("[aria-current]")?.id ?? "");
  }

  makeFocusRove(element, "a", { horizontal: true });
  return { element, draw: drawTabs, labelPanel };
}
