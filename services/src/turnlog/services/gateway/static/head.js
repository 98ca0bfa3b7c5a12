// The header of a session: its blueprint, origin, cost, and verification result.

import { to } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { exports } from "/page/exports.js";
import { kin } from "/page/forks.js";
import { counted, figure, money, oneLine, total } from "/page/words.js";

export function sessionHead(session, verify) {
  const element = make("header", { class: "head" });
  const verdict = make("button", { type: "button", on: { click: verify } });
  const out = exports(session);

  function draw(facts, calls, first, forks) {
    const used = total(calls.flatMap((call) => [call.input_tokens, call.output_tokens]));
    const paid = total(calls.map((call) => call.micro_dollars));
    document.title = first ? `${oneLine(first).slice(0, 60)} · Turnlog` : "Turnlog";
    show(element,
      make("a", { class: "back", href: to([]), title: "All sessions" }, "←"),
      make("div", { class: "name" }, make("h1", {}, first ? oneLine(first) : session),
        make("div", { class: "id" }, session, kin(session, facts.origin, forks))),
      make("dl", {},
        fact("blueprint", `${facts.blueprint} v${facts.version}`),
        fact("profile", facts.model ? `${facts.profile} · ${facts.model}` : facts.profile),
        facts.phase ? fact("phase", facts.phase) : null,
        fact("turns", figure(facts.turns)),
        fact("events", figure(facts.sequence)),
        fact("tokens", used.whole ? figure(used.sum) : `≥ ${figure(used.sum)}`),
        fact("cost", paid.whole ? money(paid.sum) : paid.sum ? `≥ ${money(paid.sum)}` : "unknown")),
      facts.closed ? make("span", { class: "badge closed" }, "closed") : null,
      verdict, out);
  }

  function unproven() {
    verdict.className = "quiet verify";
    verdict.title = "Check the record, and have every prompt again in two ways";
    show(verdict, "verify");
  }

  function proven(found) {
    verdict.className = `quiet verify ${found.verified ? "good" : "bad"}`;
    verdict.title = `head ${found.head}`;
    const [first] = found.findings;
    show(verdict, found.verified
      ? `✓ ${counted(found.events, "event")}, ${counted(found.prompts.calls, "prompt")}`
      : `✗ ${first.check}: ${first.detail}`);
  }

  unproven();
  return { element, draw, unproven, proven };
}

const fact = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
