// The approvals of all sessions: the tools that wait for a person, with the buttons that decide, or those
// that were decided. The state is part of the address.

import { createElement, setChildren } from "../app/dom.js";
import { formatAge, formatCount, formatDateTime, formatOneLine } from "../app/formatting.js";
import { describeProblem, fetchJson } from "../app/http_client.js";
import { linkToApprovals, linkToCall, linkToSession } from "../app/links.js";
import { renderApprovalActions } from "./approval_decisions.js";

const REFRESH_MS = 3000;
const STATES = ["pending", "approved", "refused"];
const EMPTY_TEXTS = { pending: "No tool waits for a person.", approved: "No tool was approved yet.", refused: "No tool was refused yet." };

export function createApprovalsView() {
  const state = createElement("select", { on: { change: () => goTo({ state: state.value }) } }, STATES.map((name) => createElement("option", { value: name }, name)));
  const user = createElement("input", { size: 14, autocomplete: "off", on: { change: () => goTo({ user: user.value.trim() }) } });
  const filterBar = createElement("form", { class: "filters", role: "search", "aria-label": "Choose the approvals", on: { submit: (event) => event.preventDefault() } },
    createElement("label", {}, "state ", state), createElement("label", {}, "user ", user));
  const count = createElement("p", { class: "faint", role: "status" });
  const list = createElement("div", { class: "list" });
  const foot = createElement("nav", { class: "pages", "aria-label": "Pages" });
  const element = createElement("section", { class: "sessions usage approvals" }, createElement("h1", {}, "Approvals"), filterBar, count, list, foot);
  let requests = 0;
  let shown = {};

  const goTo = (change) => { location.hash = linkToApprovals({ ...shown, before: null, ...change }); };

  function showApprovals(query) {
    const chosen = query.get("state");
    shown = { state: STATES.includes(chosen) ? chosen : STATES[0], user: query.get("user"), before: query.get("before") };
    state.value = shown.state;
    if (user !== document.activeElement) user.value = shown.user ?? "";
    refresh();
  }

  async function refresh() {
    const number = (requests += 1);
    try {
      const page = await fetchJson("/v1/approvals", shown);
      if (number === requests) drawPage(page);
    } catch (problem) {
      if (number === requests) setChildren(list, createElement("p", { class: "fault", role: "alert" }, describeProblem(problem)));
    }
  }

  function drawPage({ approvals, next }) {
    const text = approvals.length ? formatCount(approvals.length, "approval") + (next ? " of more" : "") : "";
    if (count.textContent !== text) count.textContent = text;
    setChildren(list, approvals.length ? renderTable(approvals) : createElement("p", { class: "empty" }, EMPTY_TEXTS[shown.state]));
    setChildren(foot, next ? createElement("a", { href: linkToApprovals({ ...shown, before: next }) }, "older →") : null);
  }

  const timer = setInterval(() => document.hidden || refresh(), REFRESH_MS);
  return {
    element,
    skips: { "the approvals": () => list.querySelector("tbody a") ?? list, "the choice of approvals": () => state },
    close: () => {
      requests += 1;
      clearInterval(timer);
    },
    go: (_, query) => {
      document.title = "Approvals · Turnlog";
      showApprovals(query);
    },
  };
}

function renderTable(approvals) {
  const heads = ["tool", "session", "user", "requested", "decision"].map((name) => createElement("th", { scope: "col" }, name));
  return createElement("table", {}, createElement("thead", {}, createElement("tr", {}, heads)), createElement("tbody", {}, approvals.map(renderRow)));
}

function renderRow(approval) {
  const { session, turn, call, tool, user } = approval;
  return createElement("tr", {},
    createElement("th", { scope: "row", class: "group" }, createElement("a", { href: linkToCall(session, call), title: `The prompt of call ${call}, which asks for the tool` }, tool),
      approval.arguments === null ? null : createElement("pre", {}, approval.arguments)),
    createElement("td", {}, createElement("a", { href: linkToSession(session) }, session), createElement("span", { class: "faint" }, ` turn ${turn}`)),
    createElement("td", {}, user === null ? "" : formatOneLine(user)),
    createElement("td", { title: formatDateTime(approval.requested_at) }, formatAge(approval.requested_at)),
    createElement("td", {}, approval.decision === null ? renderChoice(approval) : renderDecision(approval)));
}

function renderChoice(approval) {
  const use = { call: approval.call, id: approval.id, tool: approval.tool, arguments: approval.arguments, approval: { approval: approval.approval } };
  return [createElement("span", { class: "faint" }, `until ${formatDateTime(approval.deadline)}`), renderApprovalActions(approval.session, approval.turn, use)];
}

function renderDecision({ decision, by, decided_at: at }) {
  return `${decision === "approve" ? "approved" : "refused"} by ${by === null ? "its deadline" : formatOneLine(by)} · ${formatDateTime(at)}`;
}
