// The verification result of a session: one line for each verdict, and the findings with their events.
// It runs on request only, because it reads the whole session.

import { createElement, setChildren } from "../app/dom.js";
import { formatCount, formatMoney, formatNumber } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { linkToEvent } from "../app/links.js";
import { renderExportLink } from "../session/session_exports.js";
import { renderErasures } from "./erasure_receipts.js";

const VERDICT_TEXTS = {
  intact: ["good", "every event continues the one before it, and no turn was settled twice"],
  broken: ["bad", "a check of the stored events failed"],
  witnessed: ["good", "nothing is missing, and all noted events still exist"],
  unwitnessed: ["wary", "no gaps; only a signed checkpoint shows a truncated end"],
  incomplete: ["bad", "something is missing"],
  reproduced: ["good", "every prompt reproduced byte for byte, both ways"],
  erased: ["good", "every prompt reproduced, but for those whose words were erased"],
  unreproducible: ["wary", "not reproducible by this version"],
  unchecked: ["wary", "prompts after a gap cannot be reproduced"],
  failed: ["bad", "a reproduced prompt differs from the recorded one"],
  equal: ["good", "the read models equal the log"],
  elsewhere: ["wary", "not compared: the read models lag behind the log"],
  differ: ["bad", "the read models differ from the log"],
};
const MARKS = { good: "✓", wary: "–", bad: "✗" };
const MAX_FINDINGS = 50;

export function createVerificationView(session, onVerified) {
  const element = createElement("div", { class: "audit scroll" });
  let verifiedSequence = null;

  // The result stays valid until a new event arrives.
  async function showVerification(sequence) {
    if (verifiedSequence === sequence) return;
    verifiedSequence = sequence;
    setChildren(element, createElement("p", { class: "faint" }, "verifying …"));
    try {
      const [result, erased] = await Promise.all(["verify", "erasures"].map((part) => fetchJson(buildSessionPath(session, part))));
      onVerified(result);
      setChildren(element, renderVerification(result, session, erased));
    } catch (problem) {
      verifiedSequence = null;
      setChildren(element, createElement("p", { class: "fault" }, problem.message));
    }
  }

  return { element, show: showVerification };
}

function renderVerification(result, session, erased) {
  const size = `${formatCount(result.events, "event")}, ${formatCount(result.prompts.calls, "prompt")}`;
  return [
    createElement("p", { class: `verdict large ${result.verified ? "good" : "bad"}` },
      result.verified ? "✓ verified" : `✗ ${formatCount(result.findings.length, "finding")}`,
      createElement("span", { class: "faint" }, ` · ${size}, up to event ${result.sequence}`)),
    createElement("dl", { class: "promises" }, ["integrity", "completeness", "reproduction", "totals"].map((name) => renderVerdict(name, result, session))),
    renderErasures(erased),
    createElement("h2", {}, "totals of the log"),
    createElement("p", {}, formatTotals(result.log)),
    createElement("h2", {}, "independent verification"),
    createElement("p", { class: "faint" }, "This is the service's own result. ", renderExportLink(session, "bundle", "A bundle"), " can be verified by anyone with ",
      createElement("code", {}, "python3 -I verify.py"), ", or here with ", createElement("code", {}, "turnlog verify --bundle FILE"), ". ",
      createElement("code", {}, "turnlog checkpoint FILE"), " signs the last event of every session; comparing with it later shows a truncated log."),
    createElement("h2", {}, "the digest of its last event"),
    createElement("code", { class: "digest" }, result.head),
  ];
}

function renderVerdict(name, result, session) {
  const [mark, meaning] = VERDICT_TEXTS[result[name]];
  const findings = result.findings.filter((finding) => finding.verdict === name);
  return [
    createElement("dt", { class: mark }, MARKS[mark]),
    createElement("dd", {}, createElement("strong", {}, name), createElement("span", { class: mark }, ` ${result[name]}`), createElement("span", { class: "faint" }, ` · ${meaning}`),
      name === "reproduction" ? createElement("p", { class: "faint" }, formatPromptCounts(result.prompts)) : null,
      findings.slice(0, MAX_FINDINGS).map((finding) => createElement("p", { class: "fault" }, renderEventOf(finding, session), finding.detail)),
      findings.length > MAX_FINDINGS ? createElement("p", { class: "faint" }, `and ${formatNumber(findings.length - MAX_FINDINGS)} more`) : null),
  ];
}

const renderEventOf = ({ sequence }, session) => (sequence === null ? null : [createElement("a", { href: linkToEvent(session, sequence) }, `event ${sequence}`), ": "]);

function formatPromptCounts({ calls, reference, assembly, erased, unreproducible, why, unchecked, behind }) {
  return [
    `${formatNumber(reference)} by reference and ${formatNumber(assembly)} by assembly of ${formatNumber(calls)}`,
    erased ? `${formatNumber(erased)} not, since their words were erased` : null,
    unreproducible ? `${formatNumber(unreproducible)} not by this version: ${why}` : null,
    unchecked ? `${formatNumber(unchecked)} not checked: ${behind}` : null,
  ].filter(Boolean).join("; ");
}

function formatTotals({ turns, calls, attempts, tokens, input_tokens: sent, output_tokens: got, micro_dollars: cost, guessed_attempts: guessed, unpriced_attempts: unpriced }) {
  return [formatCount(turns, "turn"), formatCount(calls, "call"), formatCount(attempts, "attempt"), `${formatCount(tokens, "token")} of prompts`,
    `${formatNumber(sent)} → ${formatNumber(got)} tokens`, attempts > unpriced ? formatMoney(cost, guessed > 0) : null,
    unpriced ? `${formatCount(unpriced, "attempt")} without a price` : null].filter(Boolean).join(" · ");
}
