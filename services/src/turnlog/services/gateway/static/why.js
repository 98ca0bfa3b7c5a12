// Why a call was answered in this way: each part of its prompt with the events that caused it, what was
// left out and by which event, and the effects of the call.

import { causes, cause, turns } from "/page/causes.js";
import { make, show } from "/page/dom.js";
import { get, ofSession } from "/page/http.js";
import { colours, sourceOf } from "/page/passages.js";
import { counted, figure } from "/page/words.js";

export function whyPane(session) {
  const element = make("div", { class: "audit scroll" });
  let shown = null;

  async function showCall(call) {
    if (call === shown) return;
    shown = call;
    show(element, make("p", { class: "faint" }, "tracing …"));
    try {
      const why = await get(ofSession(session, "calls", call, "why"));
      if (call === shown) show(element, draw(why, session));
    } catch (problem) {
      if (call === shown) show(element, make("p", { class: "fault" }, problem.message));
    }
    element.scrollTop = 0;
  }

  return { element, show: showCall };
}

function draw(why, session) {
  const hues = colours({ parts: why.parts.map(({ part }) => part) });
  const standing = why.parts.filter(({ part }) => (part.role ?? null) !== null);
  const absent = why.parts.filter(({ part }) => (part.role ?? null) === null);
  return [
    facts(why, session),
    section("what it was told", standing.map((each) => origin(each, hues, session))),
    steps(why),
    section("left out", absent.map((each) => origin(each, hues, session))),
  ];
}

const section = (title, rows) => (rows.length ? make("section", {}, make("h2", {}, title), rows) : null);

function facts(why, session) {
  const row = (name, ...what) => [make("dt", {}, name), make("dd", {}, ...what)];
  const { standing, withheld } = why;
  return make("dl", { class: "facts" },
    row("turn", why.started ? ["by itself · ", cause(why.started, session)] : cause(why.asked, session)),
    row("call", `${why.call} · ${counted(why.tokens, "token")}${why.budget ? ` of ${figure(why.budget)}` : ""} · `, cause(why.fixed, session)),
    why.calls.filter(({ call }) => call !== why.call).map((made, place) => row(place ? "" : "beside",
      `${made.call} · ${made.kind} · ${counted(made.tokens, "token")} → ${made.gave.join(", ") || "nothing"} · `, cause(made.fixed, session))),
    standing ? row("phase", `${standing.phase}, after ${counted(standing.exchanges, "exchange")}${bounds(standing)} · `, cause(standing.since, session)) : [],
    withheld
      ? row("safety", make("span", { class: "fault" }, `✗ withheld by ${withheld.rule}: ${withheld.reason} · `), cause(withheld.by, session))
      : row("safety", make("span", { class: "verdict good" }, "✓ "), "nothing was withheld"),
    why.superseded.length ? row("instead of", `call ${why.superseded.join(", ")}, whose sources had changed`) : [],
    why.consequences.map((each, place) => row(place ? "" : "led to", `${each.what} · `, cause(each.by, session))));
}

const bounds = ({ shared, hidden }) => `${shared.length ? `, sees ${shared.join(", ")}` : ""}${hidden.length ? `, not ${hidden.join(", ")}` : ""}`;

function origin({ part, by, filled, because, removed, tool }, hues, session) {
  const treated = part.treatment === "kept" ? "" : ` · ${part.treatment}${part.rule ? ` by ${part.rule}` : ""}`;
  const size = part.tokens ? ` · ${counted(part.tokens, "token")}` : "";
  return make("article", { class: `origin ${hues[part.layer]}` },
    make("h3", {}, make("span", { class: "layer" }, part.layer), part.item ? ` ${part.item}` : "",
      make("span", { class: "faint" }, ` · ${sourceOf(part.source)}${size}${treated}`)),
    tool ? line("given by ", tool) : null,
    by.length ? line("from ", causes(by, session)) : null,
    filled.map((each) => line(`${each.path} `, each.by.length ? causes(each.by, session) : make("span", { class: "faint" }, "empty"))),
    because.length ? line(`${part.rule}: `, causes(because, session)) : null,
    removed.map((each) => line(`${turns(each.first, each.last)} ${each.rule}: `, cause(each.by, session))));
}

const line = (what, found) => make("p", {}, what, found);

function steps({ steps: taken, budget }) {
  return section("cut to fit", taken.map((step) => make("article", { class: "origin" }, make("h3", {}, `${step.step} ${step.on}`,
    make("span", { class: "faint" }, ` · ${figure(step.before)} → ${figure(step.after)} tokens ${step.section ?? step.component ? `within ${step.section ?? step.component}` : `of ${figure(budget)}`}`)))));
}
