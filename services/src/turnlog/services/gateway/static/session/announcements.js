// What a screen reader says of a live session: that a turn is being answered, and its end. A reply is read
// once, when it is complete, and not token by token.

import { createElement } from "../app/dom.js";
import { readContent } from "../app/formatting.js";

const SENTENCES = {
  "turn-submitted": ({ turn }) => `Turn ${turn} is being answered.`,
  "turn-queued": ({ turn }) => `Turn ${turn} waits for the turn before it.`,
  "turn-completed": ({ turn, text }) => `Reply of turn ${turn}: ${readContent(text)}`,
  "turn-failed": ({ turn, code }) => `Turn ${turn} failed: ${code}`,
  "turn-cancelled": ({ turn }) => `Turn ${turn} was cancelled.`,
  "turn-excluded": ({ turn }) => `Turn ${turn} is excluded.`,
  "turn-restored": ({ turn }) => `Turn ${turn} is included again.`,
  "reply-redacted": ({ turn, replacement }) => `The reply of turn ${turn} was withheld: ${readContent(replacement)}`,
  "text-redacted": ({ turn }) => `What was said in turn ${turn} was withheld.`,
  "approval-requested": ({ turn, approval }) => `Turn ${turn} waits for approval ${approval}.`,
  "phase-entered": ({ phase }) => `Phase ${phase} begins.`,
  "profile-switched": ({ profile }) => `The profile is ${profile}.`,
  "session-closed": () => "The session is closed.",
};

export function createAnnouncer() {
  const element = createElement("p", { class: "unseen announcer", role: "status" });
  return {
    element,
    announce: (name, data) => { if (SENTENCES[name]) element.textContent = SENTENCES[name](data); },
  };
}
