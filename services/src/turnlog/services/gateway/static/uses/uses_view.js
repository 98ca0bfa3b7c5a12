// Which calls and replies had a source in their prompt, as `GET /v1/uses` lists them, and through what.

import { createElement, setChildren } from "../app/dom.js";
import { formatCount, formatDateTime } from "../app/formatting.js";
import { describeProblem, fetchJson } from "../app/http_client.js";
import { linkToCall, linkToEvent, linkToSession, linkToUses } from "../app/links.js";

const FORMS = "document:COLLECTION/ENTRY · segment:NUMBER · turn:SESSION/TURN · sha256:DIGEST";

export function createUsesView() {
  const box = createElement("input", { type: "search", size: 40, autocomplete: "off", placeholder: FORMS, "aria-label": "Source" });
  const search = createElement("form", { class: "filters", role: "search", on: { submit: chooseSource } }, box, createElement("button", {}, "find"));
  const count = createElement("p", { class: "faint", role: "status" });
  const list = createElement("div", { class: "list" });
  const foot = createElement("nav", { class: "pages", "aria-label": "Pages" });
  const element = createElement("section", { class: "sessions usage uses" }, createElement("h1", {}, "Which replies used this?"), search, count, list, foot);
  let requests = 0;

  function chooseSource(event) {
    event.preventDefault();
    location.hash = linkToUses(box.value.trim());
  }

  async function showUses(source, after) {
    const number = (requests += 1);
    box.value = source;
    setChildren(foot);
    if (!source) {
      count.textContent = "";
      setChildren(list, createElement("p", { class: "empty" }, "Name a source, or follow the link of one in the prompt of a call."));
      return;
    }
    try {
      const page = await fetchJson("/v1/uses", { source, after });
      if (number === requests) drawPage(page);
    } catch (problem) {
      if (number !== requests) return;
      count.textContent = "";
      setChildren(list, createElement("p", { class: "fault", role: "alert" }, describeProblem(problem)));
    }
  }

  function drawPage({ source, uses, next, stopped }) {
    const incomplete = stopped.length ? `; incomplete, the read models of ${stopped.join(", ")} stopped` : "";
    count.textContent = uses.length ? `${formatCount(uses.length, "call")}${next ? " of more" : ""}${incomplete}` : incomplete;
    setChildren(list, uses.length ? renderTable(uses) : createElement("p", { class: "empty" }, "No call had it in its prompt."));
    setChildren(foot, next ? createElement("a", { href: linkToUses(source, next) }, "older →") : null);
  }

  return {
    element,
    skips: { "the uses": () => list.querySelector("tbody a") ?? list, "the source": () => box },
    close: () => {
      requests += 1;
    },
    go: (_, query) => {
      document.title = "Uses · Turnlog";
      showUses(query.get("source") ?? "", query.get("after"));
    },
  };
}

function renderTable(uses) {
  const heads = ["session", "call", "at", "the prompt had it"].map((name) => createElement("th", { scope: "col" }, name));
  return createElement("table", {}, createElement("thead", {}, createElement("tr", {}, heads)), createElement("tbody", {}, uses.map(renderUse)));
}

function renderUse(use) {
  return createElement("tr", {},
    createElement("th", { scope: "row", class: "group" }, createElement("a", { href: linkToSession(use.session) }, use.session)),
    createElement("td", {}, createElement("a", { href: linkToCall(use.session, use.call) }, `call ${use.call}`), use.reply ? ` → the reply of turn ${use.turn}` : ""),
    createElement("td", { class: "faint" }, formatDateTime(use.at)),
    createElement("td", {}, use.through.length ? ["through ", ...use.through.flatMap((hop, place) => [place ? ", then " : "", renderHop(hop)])] : "directly"));
}

const HOP_TEXTS = {
  summary: "a summary", carried: "a text carried into a phase", step: "a step of a plan", reply: "a reply",
  parent: "the request of a parent", child: "the reply of a child", fork: "the event that a fork has too",
};

// A text that is no event of its own is in the turn that it belongs to.
function renderHop({ kind, session, turn, sequence }) {
  const text = sequence === null ? `${HOP_TEXTS[kind]}, turn ${turn}` : `${HOP_TEXTS[kind]}, event ${sequence}`;
  return createElement("a", { href: sequence === null ? linkToSession(session) : linkToEvent(session, sequence), title: `session ${session}` }, text);
}
