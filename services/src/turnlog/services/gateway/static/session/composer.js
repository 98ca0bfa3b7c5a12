// The message input of a session. What is typed survives a change of the view and a reload; a press that
// got no answer is sent again under the same idempotency key, so that it is carried out once.

import { createElement } from "../app/dom.js";
import { buildSessionPath, createKeyedSender, describeProblem, sendBytes } from "../app/http_client.js";
import { createAttachments } from "./media_parts.js";

export function createComposer(session) {
  const draftName = `draft of ${session}`;
  const error = createElement("p", { class: "fault", id: "composer-fault", role: "alert", hidden: true });
  const text = createElement("textarea", { rows: 1, placeholder: "Submit a turn", "aria-label": "Submit a turn", "aria-describedby": "composer-fault",
    on: { keydown: sendOnEnter, input: noteDraft } });
  const send = createElement("button", { type: "submit" }, "Send");
  const stop = createElement("button", { type: "button", class: "quiet", hidden: true, on: { click: () => sendCommand("cancel", () => ({})) } }, "Stop");
  const attachments = createAttachments(() => text.focus());
  const element = createElement("form", { class: "composer", "aria-label": "Submit a turn", on: { submit: submitTurn } }, error, attachments.controls, text, stop, send);
  const sendKeyed = createKeyedSender();
  text.value = sessionStorage.getItem(draftName) ?? "";

  function noteDraft() {
    if (text.value) sessionStorage.setItem(draftName, text.value);
    else sessionStorage.removeItem(draftName);
  }

  function sendOnEnter(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    element.requestSubmit();
  }

  async function submitTurn(event) {
    event.preventDefault();
    const sent = text.value;
    if ((!sent.trim() && attachments.isEmpty()) || !(await sendCommand("turns", () => buildTurn(sent)))) return;
    if (text.value === sent) text.value = "";
    attachments.clear();
    noteDraft();
  }

  async function buildTurn(sent) {
    if (attachments.isEmpty()) return { text: sent };
    const written = sent.trim() ? [{ type: "text", text: sent }] : [];
    return { parts: [...written, ...(await attachments.upload(sendBytes))] };
  }

  async function sendCommand(what, build) {
    try {
      await sendKeyed("POST", buildSessionPath(session, what), await build());
      error.hidden = true;
      return true;
    } catch (problem) {
      error.hidden = false;
      error.textContent = describeProblem(problem);
      return false;
    }
  }

  return { element, close: (closed) => { element.hidden = closed; }, busy: (busy) => { stop.hidden = !busy; } };
}
