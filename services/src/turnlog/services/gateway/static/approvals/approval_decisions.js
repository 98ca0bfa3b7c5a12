// The decision about a tool that waits for approval: it runs with its arguments or with edited ones, or not.

import { createActionButton, createField, openActionDialog } from "../actions/action_dialog.js";
import { createElement } from "../app/dom.js";
import { buildSessionPath, fetchJson, ProblemError } from "../app/http_client.js";

const MAX_REASON_CHARACTERS = 1000;

// The buttons beside a tool that waits; `use` has the tool, its arguments and the number of the approval.
export function renderApprovalActions(session, turn, use) {
  const key = `${session} turn ${turn} approval ${use.approval.approval}`;
  return createElement("p", { class: "turn-actions" },
    createActionButton(`${key} approve`, "Approve", () => openDecision(session, turn, use, "approve")), " ",
    createActionButton(`${key} refuse`, "Refuse", () => openDecision(session, turn, use, "refuse")));
}

// An approval names the arguments that the dialog shows, so that no others run; whoever edits them sees
// what is wrong with them beside their box.
function openDecision(session, turn, use, decision) {
  const isRefusal = decision === "refuse";
  const edit = createField({ name: "arguments", label: "Arguments", kind: "textarea", value: use.arguments, hint: "JSON. If you edit them, the tool runs with yours, and the model reads so." });
  const readEdit = (written) => (written === use.arguments.trim() ? {} : { arguments: parseEdit(written) });
  let shown = null;
  openActionDialog({
    title: `${isRefusal ? "Refuse" : "Approve"} ${use.tool}`, isSevere: isRefusal, confirm: isRefusal ? "Refuse" : "Approve", nextKey: `${session} tool ${use.call} ${use.id}`,
    intro: isRefusal ? "The tool does not run, and the turn goes on without its result." : "The tool runs with these arguments, and the turn goes on.",
    fields: [...(isRefusal ? [] : [edit]), createField({ name: "reason", label: "Reason", kind: "textarea", maxlength: MAX_REASON_CHARACTERS, hint: isRefusal ? "Recorded; the model reads it. It may be empty." : "Recorded. It may be empty." })],
    loadPreview: async () => {
      shown = await fetchShownDigest(session, use);
      return createElement("pre", { tabindex: "0" }, use.arguments);
    },
    buildCommand: ({ reason, arguments: written }) => ["POST", buildSessionPath(session, "turns", turn, "approvals", use.approval.approval),
      { decision, reason, ...(shown ? { shown } : {}), ...(isRefusal ? {} : readEdit(written)) }],
  });
}

// The digest of the arguments that wait; null once somebody decided.
async function fetchShownDigest(session, use) {
  const { open } = await fetchJson(buildSessionPath(session));
  return open?.approvals.find(({ call, id }) => call === use.call && id === use.id)?.digest ?? null;
}

function parseEdit(written) {
  try {
    return JSON.parse(written);
  } catch {
    throw new ProblemError(422, { detail: "the arguments are no JSON", field: "arguments" });
  }
}
