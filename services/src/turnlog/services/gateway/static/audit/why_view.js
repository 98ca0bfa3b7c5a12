// Why a call was answered in this way: each part of its prompt with the events that caused it, what was
// left out and by which event, and the effects of the call.

import { createElement, setChildren } from "../app/dom.js";
import { formatCount, formatNumber } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { linkToSession, linkToWhy } from "../app/links.js";
import { formatTurnRange, renderEventLink, renderEventLinks } from "../events/event_links.js";
import { chooseLayerHues, describeOutputRequest, formatSource } from "./prompt_parts.js";

export function createWhyView(session) {
  const element = createElement("div", { class: "audit scroll" });
  let shown = null;

  async function showCall(call) {
    if (call === shown) return;
    shown = call;
    setChildren(element, createElement("p", { class: "faint" }, "tracing …"));
    try {
      const why = await fetchJson(buildSessionPath(session, "calls", call, "why"));
      if (call === shown) setChildren(element, renderWhy(why, session));
    } catch (problem) {
      if (call === shown) setChildren(element, createElement("p", { class: "fault" }, problem.message));
    }
    element.scrollTop = 0;
  }

  return { element, show: showCall };
}

function renderWhy(why, session) {
  const hues = chooseLayerHues({ parts: why.parts.map(({ part }) => part) });
  const included = why.parts.filter(({ part }) => (part.role ?? null) !== null);
  const absent = why.parts.filter(({ part }) => (part.role ?? null) === null);
  return [
    renderFacts(why, session),
    renderSection("sent to the model", included.map((each) => renderOrigin(each, hues, session))),
    renderTrimSteps(why),
    renderSection("left out", absent.map((each) => renderOrigin(each, hues, session))),
  ];
}

const renderSection = (title, rows) => (rows.length ? createElement("section", {}, createElement("h2", {}, title), rows) : null);

function renderFacts(why, session) {
  const row = (name, ...what) => [createElement("dt", {}, name), createElement("dd", {}, ...what)];
  const { parent, standing, withheld } = why;
  return createElement("dl", { class: "facts" },
    row("turn", why.started ? ["by itself · ", renderEventLink(why.started, session)] : renderEventLink(why.asked, session)),
    parent ? row("child of", createElement("a", { href: linkToSession(parent.session) }, `${parent.session}, turn ${parent.turn}`), ` · asked by ${parent.id} of `,
      createElement("a", { href: linkToWhy(parent.session, parent.call) }, `call ${parent.call}`)) : [],
    row("call", `${why.call} · ${formatCount(why.tokens, "token")}${why.budget ? ` of ${formatNumber(why.budget)}` : ""} · `, renderEventLink(why.fixed, session)),
    why.calls.filter(({ call }) => call !== why.call).map((call, place) => row(place ? "" : "beside",
      `${call.call} · ${call.kind} · ${formatCount(call.tokens, "token")} → ${call.gave.join(", ") || "nothing"} · `, renderEventLink(call.fixed, session))),
    standing ? row("phase", `${standing.phase}, after ${formatCount(standing.exchanges, "exchange")}${formatVisibility(standing)} · `, renderEventLink(standing.since, session)) : [],
    withheld
      ? row("safety", createElement("span", { class: "fault" }, `✗ withheld by ${withheld.rule}: ${withheld.reason} · `), renderEventLink(withheld.by, session))
      : row("safety", createElement("span", { class: "verdict good" }, "✓ "), "nothing was withheld"),
    why.superseded.length ? row("instead of", describeSuperseded(why)) : [],
    why.counted ? row("counted", `times ${why.counted.factor}, as the provider counted call ${why.counted.call} · `, renderKnownEvent(why.counted.by, session)) : [],
    why.refused ? row("shortened", `${describeRefusal(why.refused)} · `, renderKnownEvent(why.refused.by, session)) : [],
    why.children.map((child, place) => row(place ? "" : "children",
      createElement("a", { href: linkToSession(child.session) }, `${child.profile}, turn ${child.turn}`), ` ${child.outcome ?? "is asked"} · call ${child.call}`)),
    why.consequences.map((each, place) => row(place ? "" : "led to", `${each.what} · `, renderEventLink(each.by, session))));
}

const renderKnownEvent = (by, session) => (by ? renderEventLink(by, session) : "");

const describeSuperseded = ({ superseded, refused }) =>
  `call ${superseded.join(", ")}, ${superseded.includes(refused?.call) ? "which was too long" : "whose sources had changed"}`;

function describeRefusal({ call, tokens, limit }) {
  const size = tokens === null ? "" : ` of ${formatCount(tokens, "token")}`;
  return `after the provider refused call ${call}${size}${limit === null ? "" : `; its model takes ${formatNumber(limit)}`}`;
}

const formatVisibility = ({ shared, hidden }) => `${shared.length ? `, sees ${shared.join(", ")}` : ""}${hidden.length ? `, not ${hidden.join(", ")}` : ""}`;

function renderOrigin({ part, by, filled, because, removed, tool }, hues, session) {
  const treatment = part.treatment === "kept" ? describeOutputRequest(part) : ` · ${part.treatment}${part.rule ? ` by ${part.rule}` : ""}`;
  const size = part.tokens ? ` · ${formatCount(part.tokens, "token")}` : "";
  return createElement("article", { class: `origin ${hues[part.layer]}` },
    createElement("h3", {}, createElement("span", { class: "layer" }, part.layer), part.item ? ` ${part.item}` : "",
      createElement("span", { class: "faint" }, ` · ${formatSource(part.source)}${size}${treatment}`)),
    tool ? renderLine("given by ", tool) : null,
    by.length ? renderLine("from ", renderEventLinks(by, session)) : null,
    filled.map((each) => renderLine(`${each.path} `, each.by.length ? renderEventLinks(each.by, session) : createElement("span", { class: "faint" }, "empty"))),
    because.length ? renderLine(`${part.rule}: `, renderEventLinks(because, session)) : null,
    removed.map((each) => renderLine(`${formatTurnRange(each.first, each.last)} ${each.rule}: `, renderEventLink(each.by, session))));
}

const renderLine = (what, found) => createElement("p", {}, what, found);

function renderTrimSteps({ steps: trimSteps, budget }) {
  return renderSection("cut to fit", trimSteps.map((step) => createElement("article", { class: "origin" }, createElement("h3", {}, `${step.step} ${step.on}`,
    createElement("span", { class: "faint" }, ` · ${formatNumber(step.before)} → ${formatNumber(step.after)} tokens ${step.section ?? step.component ? `within ${step.section ?? step.component}` : `of ${formatNumber(budget)}`}${describeLastingCut(step)}`)))));
}

function describeLastingCut({ through, limit, since }) {
  if (through == null) return "";
  const [reach, stay] = through === 1 ? ["turn 1", "stays"] : [`turns up to ${through}`, "stay"];
  return `; ${reach} ${since ? `cut by call ${since}, ${stay}` : stay} out until ${formatNumber(limit)} are exceeded`;
}
