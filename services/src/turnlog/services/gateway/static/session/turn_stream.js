// The stream of one turn. The browser reconnects with the id of the last event, so no text is missed or
// repeated, and each text is only appended. A newly opened stream starts from the beginning, and so does
// the text.

import { renderApprovalActions } from "../approvals/approval_decisions.js";
import { createElement, setChildren } from "../app/dom.js";
import { openEventSource } from "../app/event_source.js";
import { buildSessionPath } from "../app/http_client.js";
import { linkToSession } from "../app/links.js";

const PROGRESS_TEXTS = { plan: "plans …", act: "takes a step …", query: "writes queries …", summarise: "summarises …", think: "thinks …" };
const END_EVENTS = ["done", "redact", "failed", "cancelled"];

// A tool of a child session that waits; a tool of the session itself has its buttons in the turn.
function renderQuestion({ session, turn, approval, call, id, tool, arguments: given }) {
  const use = { call, id, tool, arguments: given, approval: { approval } };
  return createElement("div", { class: "use open question" },
    createElement("p", {}, createElement("b", {}, tool), " waits for approval in ", createElement("a", { href: linkToSession(session) }, `turn ${turn} of a child session`)),
    createElement("pre", {}, given),
    renderApprovalActions(session, turn, use));
}

const CHILD_TEXTS = {
  tool: ({ tool }) => `calling tool ${tool} …`,
  text: ({ characters }) => `writing, ${characters} characters …`,
  ended: ({ outcome }) => outcome,
};

function renderChild(child) {
  const describe = CHILD_TEXTS[child.doing] ?? (() => "at work …");
  return createElement("p", { class: "child" },
    createElement("a", { href: linkToSession(child.session) }, child.profile), ": ", createElement("span", { class: "faint" }, describe(child)));
}

export function watchTurn(session, turn, onText) {
  const text = document.createTextNode("");
  const progress = createElement("span", { class: "faint" });
  const working = createElement("div", { class: "work children" });
  const questions = createElement("div", { class: "work" });
  const element = createElement("div", { class: "bubble reply live" }, text, progress, createElement("span", { class: "caret" }), working, questions);
  const waiting = new Map();
  const children = new Map();
  const clearText = () => { text.data = ""; };
  const source = openEventSource(() => {
    clearText();
    return buildSessionPath(session, "turns", turn, "stream");
  }, {
    token: (event) => {
      text.appendData(JSON.parse(event.data).text);
      progress.textContent = "";
      onText();
    },
    progress: (event) => {
      const update = JSON.parse(event.data);
      progress.textContent = update.tool ? `${update.tool} …` : PROGRESS_TEXTS[update.doing] ?? "";
    },
    "attempt-reset": clearText,
    approval: (event) => {
      const data = JSON.parse(event.data);
      if (data.session === session) return;
      const key = `${data.session} ${data.turn} ${data.approval}`;
      if (data.decision) waiting.delete(key);
      else waiting.set(key, data);
      setChildren(questions, [...waiting.values()].map(renderQuestion));
      onText();
    },
    child: (event) => {
      const data = JSON.parse(event.data);
      children.set(`${data.session} ${data.turn}`, data);
      setChildren(working, [...children.values()].map(renderChild));
      onText();
    },
    ...Object.fromEntries(END_EVENTS.map((end) => [end, () => source.close()])),
  });
  return { element, close: source.close };
}
