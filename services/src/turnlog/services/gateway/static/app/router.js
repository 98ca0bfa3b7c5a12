// The router: the address selects the view, and a view that is left closes its streams.

import { createApprovalsView } from "../approvals/approvals_view.js";
import { createSessionList } from "../session/session_list.js";
import { createSessionView } from "../session/session_view.js";
import { createUsageView } from "../usage/usage_view.js";
import { createUsesView } from "../uses/uses_view.js";
import { createElement, setChildren } from "./dom.js";
import { fetchJson } from "./http_client.js";
import { readLocation } from "./links.js";
import { moveFocus, showSkipLinks } from "./skip_links.js";

// The views beside the sessions, each with a link in the head of the page.
const SECTIONS = { approvals: createApprovalsView, usage: createUsageView, uses: createUsesView };

const container = document.getElementById("view");
let view = null;

function showView() {
  const { steps, query } = readLocation();
  const [section, session, ...rest] = steps;
  const viewName = nameView(section, session);
  if (view?.name !== viewName) openView(viewName, session);
  view.go(rest, query);
}

function nameView(section, session) {
  if (section === "sessions" && session) return `session ${session}`;
  return section in SECTIONS ? section : "sessions";
}

function createView(viewName, session) {
  if (viewName in SECTIONS) return SECTIONS[viewName]();
  return viewName === "sessions" ? createSessionList() : createSessionView(session);
}

function openView(viewName, session) {
  const isFirst = !view;
  view?.close();
  view = { name: viewName, ...createView(viewName, session) };
  markSectionLinks(viewName);
  setChildren(container, view.element);
  showSkipLinks(view.skips);
  // The element that led here is gone; the next Tab begins at the new view.
  if (!isFirst) moveFocus(container);
}

function markSectionLinks(viewName) {
  for (const link of document.querySelectorAll("a.section")) {
    if (link.id === `${viewName}-link`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

const THEMES = ["auto", "light", "dark"];

function applyTheme(theme) {
  const button = document.getElementById("theme");
  document.documentElement.dataset.theme = theme;
  button.textContent = { auto: "◐", light: "○", dark: "●" }[theme];
  button.setAttribute("aria-label", `Colours: ${{ auto: "as the system has them", light: "light", dark: "dark" }[theme]}`);
}

function switchTheme() {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  localStorage.setItem("theme", next);
  applyTheme(next);
}

async function showDurability() {
  const { durability: level } = await fetchJson("/readyz");
  setChildren(document.getElementById("durability"), createElement("span", { class: "badge", title: "What an accepted turn survives" }, level));
}

applyTheme(THEMES.find((theme) => theme === localStorage.getItem("theme")) ?? "auto");
document.getElementById("theme").addEventListener("click", switchTheme);
window.addEventListener("hashchange", showView);
showDurability().catch(() => {});
showView();
