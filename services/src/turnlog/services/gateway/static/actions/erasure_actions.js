// Erase a turn or a session for good: the dialog shows what would be reached before anything is sent.

import { createElement } from "../app/dom.js";
import { buildSessionPath, createKeyedSender } from "../app/http_client.js";
import { renderReach } from "../audit/erasure_receipts.js";
import { createActionButton, createField, openActionDialog } from "./action_dialog.js";

const MAX_REASON_CHARACTERS = 1000;

const INTRO = "Its keys are removed, so that nobody can read it again, not even an audit; what was made of it goes too, in forks and children as well. The record stays whole. This cannot be taken back.";

export const renderEraseTurnButton = (session, turn) =>
  createActionButton(`${session} turn ${turn} erasure`, "erase", () => openTurnErasure(session, turn), { "aria-label": `erase: turn ${turn}` });

export const renderEraseSessionButton = (session) =>
  createActionButton(`${session} erasure`, "erase", () => openErasure(session, "Erase all words of the session", [], () => ({})), { "aria-label": "erase all words of the session" });

function openTurnErasure(session, turn) {
  const change = () => dialog.showPreview();
  const fields = [
    createField({ name: "of", label: "What", kind: "select", options: [["turn", "both"], ["text", "what was submitted"], ["work", "what came of it"]], value: "turn", change }),
    createField({ name: "with_replies", label: "Replies of later turns whose prompts had it", kind: "select", options: [["", "stay"], ["yes", "are erased too"]], hint: "They may repeat the words.", change }),
  ];
  const [of, replies] = fields;
  const dialog = openErasure(session, `Erase turn ${turn}`, fields, () => ({ turn, of: of.read(), with_replies: Boolean(replies.read()) }));
}

function openErasure(session, title, fields, buildTarget) {
  const path = buildSessionPath(session, "erasures");
  return openActionDialog({
    title, intro: INTRO, isSevere: true, confirm: "Erase for good",
    fields: [...fields, createField({ name: "reason", label: "Reason", kind: "textarea", maxlength: MAX_REASON_CHARACTERS, need: "Say why: the receipt has the reason.", hint: "Recorded for good and never sealed: name no person." })],
    buildCommand: ({ reason }) => ["POST", path, { ...buildTarget(), reason }],
    loadPreview: async () => renderPlan(await createKeyedSender()("POST", path, { ...buildTarget(), reason: "a plan", dry_run: true })),
  });
}

const renderPlan = (plan) => [plan.sessions.map(renderReach), createElement("p", { class: "faint" }, `Not reached: ${plan.kept_elsewhere.join("; ")}.`)];
