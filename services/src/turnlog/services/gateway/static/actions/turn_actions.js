// What can be done with a turn: exclude it from later prompts, include it again, and withhold its reply or its text.

import { createElement } from "../app/dom.js";
import { formatCostSum, formatNumber, formatOneLine } from "../app/formatting.js";
import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { linkToEvent } from "../app/links.js";
import { formatTurnRange } from "../events/event_links.js";
import { createActionButton, createField, openActionDialog } from "./action_dialog.js";
import { renderEraseTurnButton } from "./erasure_actions.js";

const MAX_SUMMARY_CHARACTERS = 160;
const MAX_REASON_CHARACTERS = 1000;

// A turn that is in prompts can be excluded: a completed one, or one that was cut and is kept. A cut reply can be
// withheld also where no prompt includes it. What is sealed can be erased as well.
export function renderTurnActions(session, turn, isSealed) {
  const isCut = turn.status === "failed" || turn.status === "cancelled";
  if ((turn.status !== "completed" && !isCut) || turn.purged) return null;
  const isInPrompts = !isCut || turn.cut_line || turn.redacted;
  const hasReply = isCut ? turn.partial : turn.role !== "system";
  const key = formatKey(session, turn.turn);
  const word = turn.excluded ? "include again" : "exclude";
  return createElement("span", { class: "turn-actions" },
    isInPrompts ? createActionButton(`${key} exclusion`, word, () => openExclusion(session, turn), { "aria-label": `${word}: turn ${turn.turn}` }) : null,
    createActionButton(`${key} redaction`, "redact", () => openRedaction(session, turn, hasReply && !turn.redacted), { "aria-label": `redact: turn ${turn.turn}` }),
    isSealed ? renderEraseTurnButton(session, turn.turn) : null);
}

const formatKey = (session, turn) => `${session} turn ${turn}`;

function openExclusion(session, { turn, excluded }) {
  const path = buildSessionPath(session, "turns", turn, "exclusion");
  if (excluded) {
    openActionDialog({
      title: `Include turn ${turn} again`, intro: "Prompts include it again from the next call on, as far as the blueprint's history reaches.",
      confirm: "Include again", buildCommand: () => ["DELETE", path],
    });
    return;
  }
  openActionDialog({
    title: `Exclude turn ${turn}`, intro: "No prompt includes it from the next call on. The record keeps it, and it can be included again.",
    confirm: "Exclude", buildCommand: () => ["PUT", path],
    loadPreview: async () => renderExclusionPreview(session, await fetchJson(path)),
  });
}

function renderExclusionPreview(session, { undone, uncovered, cost }) {
  if (!undone.length) return createElement("p", {}, "No summary tells of this turn, so nothing is summed up again.");
  return [
    createElement("p", {}, `It undoes ${undone.length === 1 ? "1 summary" : `${formatNumber(undone.length)} summaries`} that ${undone.length === 1 ? "tells" : "tell"} of this turn:`),
    createElement("ul", {}, undone.map((summary) => createElement("li", {}, `${summary.view}, ${formatRanges(summary.turns)} · `,
      createElement("a", { href: linkToEvent(session, summary.sequence), target: "_blank" }, `event ${summary.sequence}`),
      createElement("span", { class: "faint" }, summary.text ? ` “${formatOneLine(summary.text).slice(0, MAX_SUMMARY_CHARACTERS)}”` : " (no longer readable)")))),
    uncovered.length ? createElement("p", {}, `Prompts show again ${uncovered.map(({ view, turns }) => `${formatRanges(turns)} of ${view}`).join(", ")}, until a model sums them up again.`) : null,
    createElement("p", {}, `Writing ${undone.length === 1 ? "that summary" : "those summaries"} cost ${formatCostSum(cost) || "an unknown amount"}; to sum up again costs about as much.`),
  ];
}

const formatRanges = (turns) => turns.map(({ first, last }) => formatTurnRange(first, last)).join(", ");

function openRedaction(session, { turn }, isReplyShown) {
  const choices = isReplyShown ? [["reply", "the reply"], ["text", "what was submitted"], ["turn", "both"]] : [["text", "what was submitted"]];
  const pattern = createField({ name: "pattern", label: "Only what matches", hint: "A regular expression, searched in the text that was submitted. If empty, all of it is redacted." });
  const showPattern = (of) => { pattern.element.hidden = of === "reply"; };
  showPattern(choices[0][0]);
  openActionDialog({
    title: `Redact turn ${turn}`, isSevere: true, confirm: "Redact", nextKey: `${formatKey(session, turn)} exclusion`,
    intro: "Another text stands instead, wherever it is shown and in later prompts, and summaries of the turn are undone. This cannot be taken back. A reply may repeat what was submitted.",
    fields: [
      createField({ name: "of", label: "What", kind: "select", options: choices, value: choices[0][0], change: showPattern }),
      pattern,
      createField({ name: "reason", label: "Reason", kind: "textarea", maxlength: MAX_REASON_CHARACTERS, need: "Say why: the record and readers get the reason.", hint: "Recorded and shown to readers." }),
      createField({ name: "replacement", label: "Text instead", hint: "If empty, that of the blueprint for a reply, and [withheld] for a text." }),
    ],
    buildCommand: ({ of, reason, pattern: sought, replacement }) => ["POST", buildSessionPath(session, "redactions"), { turn, of, reason, ...(sought && of !== "reply" ? { pattern: sought } : {}), ...(replacement ? { replacement } : {}) }],
  });
}
