// The header of a session: its blueprint, origin, cost, and verification result.

import { renderEraseSessionButton } from "../actions/erasure_actions.js";
import { renderDescribeButton, renderPhaseButton, renderProfileButton } from "../actions/session_actions.js";
import { createElement, setChildren } from "../app/dom.js";
import { formatCostSum, formatCount, formatNumber, formatOneLine, formatTokenSum } from "../app/formatting.js";
import { linkToSessions } from "../app/links.js";
import { renderExports } from "./session_exports.js";
import { renderForkLinks } from "./session_forks.js";
import { getListAddress } from "./session_list.js";

// `listPhases` returns the phases that the session is known to have.
export function createSessionHeader(session, verify, listPhases) {
  const element = createElement("header", { class: "head" });
  const verdict = createElement("button", { type: "button", on: { click: verify } });
  const exportMenu = renderExports(session);

  // `first` is the first turn's text; it stands for a title that nobody gave.
  function drawHeader(facts, usage, first, derived) {
    const title = formatOneLine(facts.title || first || "");
    const cost = usage ? formatCostSum(usage.cost) : "";
    document.title = title ? `${title.slice(0, 60)} · Turnlog` : "Turnlog";
    setChildren(element,
      createElement("a", { class: "back", href: getListAddress(), title: "All sessions", "aria-label": "All sessions" }, "←"),
      createElement("div", { class: "name" }, createElement("h1", {}, title || session),
        createElement("div", { class: "id" }, session, renderDescribeButton(session, facts), facts.sealed && !facts.erased ? renderEraseSessionButton(session) : null, facts.labels.map(renderLabelLink), renderForkLinks(session, facts.origin, derived))),
      createElement("dl", {},
        facts.owner ? renderFact("owner", formatOneLine(facts.owner)) : null,
        facts.shares.length ? renderFact("shared with", facts.shares.map(({ user, access }) => `${formatOneLine(user)} (${access})`).join(", ")) : null,
        renderFact("blueprint", `${facts.blueprint} v${facts.version}`),
        renderFact("profile", facts.model ? `${facts.profile} · ${facts.model}` : facts.profile, facts.closed ? null : renderProfileButton(session, facts)),
        facts.phase ? renderFact("phase", facts.phase, facts.closed ? null : renderPhaseButton(session, facts, listPhases)) : null,
        renderFact("turns", formatNumber(facts.turns)),
        renderFact("events", formatNumber(facts.sequence)),
        usage ? renderFact("tokens", formatTokenSum(usage)) : null,
        cost ? renderFact("cost", cost) : null),
      facts.closed ? createElement("span", { class: "badge closed" }, facts.erased ? "erased" : "closed") : null,
      facts.unreadable ? renderUnreadable(facts) : null,
      verdict, exportMenu);
  }

  function showUnverified() {
    verdict.className = "quiet verify";
    verdict.title = "Verify the record, and reproduce every prompt in two ways";
    setChildren(verdict, "verify");
  }

  function showVerified(result) {
    verdict.className = `quiet verify ${result.verified ? "good" : "bad"}`;
    verdict.title = `head ${result.head}`;
    const [first] = result.findings;
    setChildren(verdict, result.verified
      ? `✓ ${formatCount(result.events, "event")}, ${formatCount(result.prompts.calls, "prompt")}`
      : `✗ ${first.check}: ${first.detail}`);
  }

  showUnverified();
  return { element, draw: drawHeader, showUnverified, showVerified };
}

const renderLabelLink = (label) => createElement("a", { class: "badge label", href: linkToSessions({ label }), title: "The sessions with this label" }, formatOneLine(label));

function renderUnreadable({ unreadable, sequence }) {
  const advice = `Nothing can follow it. Fork the session at event ${sequence} to go on.`;
  return createElement("span", { class: "badge stopped", role: "status", title: advice },
    `stopped: the message behind event ${sequence} cannot be read: ${unreadable.reason}`);
}

const renderFact = (name, value, button = null) => createElement("div", {}, createElement("dt", {}, name), createElement("dd", {}, value, button));
