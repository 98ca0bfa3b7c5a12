// The events of one turn, read once and then kept up with the live events of the session. Manifests are
// left out, because they are long and the calls of the session have their figures.

import { buildSessionPath, fetchJson } from "../app/http_client.js";
import { formatEventName } from "../events/event_sentences.js";

const TURN_ENDS = ["turn-completed", "turn-failed", "turn-cancelled", "reply-redacted"];
const TURN_EVENTS = [
  "turn-submitted", "turn-queued", "turn-released", "turn-resolved", "attempt-started", "attempt-ended", "call-completed", "plan-made", "step-planned",
  "knowledge-retrieved", "tool-called", "tool-started", "tool-returned", "approval-requested", "approval-decided", "text-redacted", ...TURN_ENDS,
];
const PAGE_SIZE = 1000;

export function createTurnEvents(session) {
  const loading = new Map();

  // `sequence` is that of the event which submitted the turn.
  function loadTurn(turn, sequence) {
    if (!loading.has(turn)) {
      const events = fetchTurnEvents(session, turn, sequence);
      loading.set(turn, events);
      events.catch(() => loading.delete(turn));
    }
    return loading.get(turn);
  }

  // Texts of a turn are withheld from its earlier events too, so these are read again.
  function applyEvent(envelope) {
    const { turn } = envelope.data;
    const name = formatEventName(envelope.type);
    if (!loading.has(turn) || !TURN_EVENTS.includes(name)) return;
    if (name === "reply-redacted" || name === "text-redacted") loading.delete(turn);
    else loading.set(turn, loading.get(turn).then((events) => (events.some((each) => each.sequence === envelope.sequence) ? events : [...events, envelope])));
  }

  return { load: loadTurn, apply: applyEvent };
}

async function fetchTurnEvents(session, turn, sequence) {
  const events = [];
  let after = sequence - 1;
  for (;;) {
    const page = await fetchJson(buildSessionPath(session, "events"), { after, types: TURN_EVENTS.join(","), limit: PAGE_SIZE });
    events.push(...page.events.filter((each) => each.data.turn === turn));
    if (!page.more || events.some((each) => TURN_ENDS.includes(formatEventName(each.type)))) break;
    after = page.after;
  }
  return [...events, ...(await fetchRedactions(session, events))];
}

// A reply or a text may be withheld long after its turn; the events then name the redactions.
async function fetchRedactions(session, events) {
  const known = new Set(events.map((each) => each.sequence));
  const named = new Set(events.map((each) => each.withheldby).filter((sequence) => sequence && !known.has(sequence)));
  const pages = [...named].map((sequence) => fetchJson(buildSessionPath(session, "events"), { after: sequence - 1, limit: 1 }));
  return (await Promise.all(pages)).flatMap((page) => page.events);
}

// What an attempt took when it ended, and the answer of a call: each is an event of its own, or part of the
// event that it led to. Returned is the event, with the fields of that part as its data.
export const findAttemptEnds = (events, call) => events.map(readAttemptEnd).filter((each) => each?.data.call === call);

export const findCallAnswer = (events, call) => events.map(readCallAnswer).find((each) => each?.data.call === call);

function readAttemptEnd(event) {
  if (formatEventName(event.type) === "attempt-ended") return event;
  const answered = readCallAnswer(event);
  return answered?.data.spent ? { ...answered, data: { ...answered.data, ...answered.data.spent, outcome: "answered" } } : null;
}

function readCallAnswer(event) {
  const name = formatEventName(event.type);
  if (name === "call-completed") return event;
  if (name !== "turn-completed" || !event.data.answer) return null;
  const { answer, call, finish } = event.data;
  return { ...event, data: { ...answer, call, finish } };
}

export const findEvents = (events, name, fields = {}) => events.filter((each) => formatEventName(each.type) === name
  && Object.entries(fields).every(([field, value]) => each.data[field] === value));
