// The router: the address selects the view, and a view that is left closes its streams.

import { createApprovalsView } from "../approvals/approvals_view.js";
import { createBlueprintView } from "../blueprints/blueprint_view.js";
import { createOverview } from "../overview/overview_view.js";
import { createSessionList } from "../session/session_list.js";
import { createSessionView } from "../session/session_view.js";
import { createUsageView } from "../usage/usage_view.js";
import { createUsesView } from "../uses/uses_view.js";
import { createElement, setChildren } from "./dom.js";
import { SIGN_IN_NEEDED, fetchJson } from "./http_client.js";
import { readLocation } from "./links.js";
import { mayDo, setPrincipal } from "./permissions.js";
import { makeFocusRove } from "./roving_focus.js";
import { createSignIn, createSignOut } from "./sign_in.js";
import { moveFocus, showSkipLinks } from "./skip_links.js";

// The views of many sessions, each with a link in the head of the page.
const SECTIONS = { overview: createOverview, sessions: createSessionList, approvals: createApprovalsView, usage: createUsageView, uses: createUsesView };

// The views of one thing, which the second step of the address names.
const SUBJECTS = { sessions: createSessionView, blueprints: createBlueprintView };

const container = document.getElementById("view");
let view = null;

// What a view needs; the links to those that one may not see are not shown.
const NEEDED = { sessions: "sessions:read", overview: "figures:read", approvals: "events:read", usage: "figures:read" };

let isKnown = false;

function showView() {
  if (!isKnown) return;
  const { steps, query } = readLocation();
  const [section, subject, ...rest] = steps;
  const viewName = nameView(section, subject, query);
  if (view?.name !== viewName) openView(viewName, section, subject);
  view.go(rest, query);
}

// An address without a section is the overview; with a choice of sessions it is one of an earlier release.
function nameView(section, subject, query) {
  if (section in SUBJECTS && subject) return `${section} ${subject}`;
  if (section in SECTIONS) return section;
  const isOverview = !section && [...query.keys()].every((name) => name === "hours");
  return isOverview && mayDo(NEEDED.overview) ? "overview" : "sessions";
}

const createView = (viewName, section, subject) => (viewName in SECTIONS ? SECTIONS[viewName]() : SUBJECTS[section](subject, reopenView));

// Shows the view anew, from what the service says now, and nothing that the page has in memory.
function reopenView() {
  view.name = "";
  showView();
}

function openView(viewName, section, subject) {
  const isFirst = !view;
  view?.close();
  view = { name: viewName, ...createView(viewName, section, subject) };
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

// Finds out who one is, and shows the address that one came for, or the way to sign in.
async function showForPrincipal() {
  try {
    const principal = await fetchJson("/v1/principal");
    setPrincipal(principal);
    isKnown = true;
    document.getElementById("section-links").hidden = false;
    for (const [name, needed] of Object.entries(NEEDED)) document.getElementById(`${name}-link`).hidden = !mayDo(needed);
    const hasKey = ["key", "root-key", "oidc"].includes(principal.sign_in);
    setChildren(document.getElementById("signed-in"), hasKey ? createSignOut(principal, showSignIn) : null);
    showView();
  } catch (problem) {
    if (problem.status !== 401) {
      isKnown = true;
      showView();
    }
  }
}

function showSignIn() {
  view?.close();
  view = null;
  isKnown = false;
  document.getElementById("section-links").hidden = true;
  const form = createSignIn(showForPrincipal);
  setChildren(document.getElementById("signed-in"));
  setChildren(container, form.element);
  showSkipLinks({});
  form.focus();
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

makeFocusRove(document.getElementById("section-links"), "a.section", { horizontal: true });
applyTheme(THEMES.find((theme) => theme === localStorage.getItem("theme")) ?? "auto");
document.getElementById("theme").addEventListener("click", switchTheme);
window.addEventListener("hashchange", showView);
window.addEventListener(SIGN_IN_NEEDED, showSignIn);
showDurability().catch(() => {});
showForPrincipal();
