// A failure in words: what happened, the recorded cause, and what to do about it. The words are those of
// the reference of error codes; a code of another release stands for itself.

import { createElement } from "../app/dom.js";
import { renderFoldedText } from "../app/folding.js";
import { FAILURE_TEXTS } from "./failure_catalogue.js";

const CANCEL_TEXTS = {
  cancelled: "on request", interrupted: "by a later turn", closed: "because the session was closed", "phase-left": "because the session left the phase in which the turn waited",
};

export const describeFailure = (code) => formatSentence(FAILURE_TEXTS[code]?.[0] ?? `it ended with ${code}`);
export const describeCancel = (reason) => `cancelled ${CANCEL_TEXTS[reason] ?? `: ${reason}`}`;

// `detail` is the cause as it was recorded; a long one, such as the last lines of a server, is folded.
// After a failure that did no harm, such as an attempt that was made again, there is nothing to do.
export function renderFailure(key, code, detail, isHarmless = false) {
  const action = isHarmless ? null : FAILURE_TEXTS[code]?.[1];
  return createElement("div", { class: "failure" },
    createElement("p", {}, createElement("strong", {}, describeFailure(code)), " ", createElement("code", { class: "faint" }, code)),
    detail ? createElement("div", { class: "cause-of-failure" }, createElement("span", { class: "faint" }, "cause "), renderFoldedText(`${key} cause`, detail, {}, "span")) : null,
    action ? createElement("p", {}, createElement("span", { class: "faint" }, "what to do "), formatSentence(action)) : null);
}

const formatSentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
