// One-line summaries of events, without the envelope.

import { counted, figure, money, oneLine, quoted, seconds, short } from "/page/words.js";

const FAMILIES = {
  session: "session", blueprint: "session", prompts: "prompt", turn: "turn", choice: "turn", attempt: "call", context: "call", call: "call",
  tool: "tool", tools: "tool", schemas: "prompt", profile: "session", summary: "memory", history: "memory", memory: "memory", plan: "call", step: "call", reply: "redaction", phase: "phase",
};

export const nameOf = (type) => type.replace(/^turnlog\./, "").replace(/\.v\d+$/, "");
export const familyOf = (name) => FAMILIES[name.split("-")[0]] ?? "unknown";

const SENTENCES = {
  "session-opened": (data) => {
    const given = Object.entries(data.attributes).filter(([, value]) => value !== null);
    const attributes = given.map(([name, value]) => `${name}=${oneLine(String(value))}`);
    return [`${data.blueprint.name} v${data.blueprint.version}`, `profile ${data.profile}`, ...attributes].join(" · ");
  },
  "blueprint-moved": (data) => {
    const released = data.released?.length ? ` · prompts of ${data.released.join(", ")} pinned anew` : "";
    const { before, blueprint } = data;
    return `${blueprint.name} v${before.version} → v${blueprint.version} · ${short(blueprint.digest)}${released}`;
  },
  "profile-switched": (data) => {
    const way = data.before === data.profile ? data.profile : `${data.before} → ${data.profile}`;
    return [way, data.model ? `model ${data.model}` : null, data.reason].filter(Boolean).join(" · ");
  },
  "session-closed": (data) => data.reason,
  "prompts-snapshotted": (data) => {
    const files = Object.entries(data.layers).map(([layer, file]) => `${layer} ← ${file.path}`);
    return `for ${data.provider}: ${files.join(", ") || "no prompt file"}`;
  },
  "turn-submitted": (data) => `turn ${data.turn} ${quoted(data.text)}`,
  "turn-queued": (data) => `turn ${data.turn} ${quoted(data.text)}`,
  "turn-released": (data) => `turn ${data.turn}`,
  "turn-completed": (data) => `turn ${data.turn} ${quoted(data.text)}`,
  "turn-failed": (data) => `turn ${data.turn} ${data.code}: ${data.detail}`,
  "turn-cancelled": (data) => `turn ${data.turn} ${data.reason}`,
  "turn-excluded": (data) => `turn ${data.turn}`,
  "turn-restored": (data) => `turn ${data.turn}`,
  "attempt-started": (data) => `call ${data.call} · attempt ${data.attempt} · ${data.worker}`,
  "context-assembled": (data) => {
    const { tokens, parts, digest } = data.manifest;
    const kept = parts.filter((part) => (part.role ?? null) !== null).length;
    return `call ${data.call} · ${data.model} · ${counted(tokens, "token")} in ${counted(kept, "part")} · ${short(digest)}`;
  },
  "attempt-ended": (data) => {
    const outcome = data.fault ? `${data.outcome} (${data.fault.code})` : data.outcome;
    return [`call ${data.call}`, outcome, ...spent(data)].join(" · ");
  },
  "call-completed": (data) => `call ${data.call} · ${data.finish} · ${counted(data.characters, "character")}`,
  "choice-recorded": (data) => `${data.phase}: ${data.choice}${data.label ? ` “${data.label}”` : ""}`,
  "tools-snapshotted": (data) => `for profile ${data.profile}: ${Object.keys(data.tools).join(", ") || "no tool"}`,
  "plan-made": (data) => `turn ${data.turn} in ${counted(data.steps, "step")}`,
  "step-planned": (data) => `turn ${data.turn} step ${data.step} ${quoted(data.goal)}${data.given ? ` · known from event ${data.given}` : ""}`,
  "tool-called": (data) => `call ${data.call} · ${data.tool} ${oneLine(data.arguments)}`,
  "tool-started": (data) => `call ${data.call} · ${data.tool} · attempt ${data.attempt}`,
  "tool-returned": (data) => {
    const gave = [data.characters ? counted(data.characters, "character") : null, data.treatment === "condensed" ? "in short" : null];
    const what = gave.filter(Boolean).join(", ");
    return `call ${data.call} · ${data.tool} ${data.outcome}${data.detail ? `: ${oneLine(data.detail)}` : ""}${what ? ` · ${what}` : ""}`;
  },
  "phase-entered": (data) => {
    const way = data.before ? `${data.before} → ${data.phase}` : data.phase;
    const hidden = data.hidden?.length ? ` · not ${data.hidden.join(", ")}` : "";
    const told = data.carried ? ` · ${quoted(data.carried)}` : "";
    return `${way}${data.signal ? ` · ${data.signal}` : ""}${data.forced ? ", forced" : ""}${hidden}${told}`;
  },
  "schemas-requested": (data) => `for profile ${data.profile}`,
  "turn-displayed": (data) => `turn ${data.turn} · a form to look at of ${[data.text && "what was said", data.reply && "the reply"].filter(Boolean).join(" and ")}`,
  "summary-begun": (data) => `${data.view}: ${ranges(data.turns)} are to be summed up`,
  "history-summarised": (data) => `${data.view}: for ${ranges(data.turns)} ${quoted(data.summary)}`,
  "summary-failed": (data) => `${data.view} ${data.code}: ${oneLine(data.detail)}`,
  "summary-undone": (data) => `${data.view}: that of event ${data.sequence}, ${data.turn ? `turn ${data.turn} was ${data.cause}` : "as was asked"}`,
  "memory-purged": (data) => `no window shows turns up to ${data.upto} any more`,
  "turn-resolved": (data) => {
    const which = Object.keys(data.identifiers ?? {}).length ? ` · ${listed(data.identifiers)}` : "";
    return `turn ${data.turn} is about ${data.intent ?? data.entity ?? "nothing known"}${which}, ${data.reason}`;
  },
  "reference-updated": (data) => `turn ${data.turn} was about ${listed(data.identifiers)}`,
  "reply-redacted": (data) => `turn ${data.turn} by ${data.rule}: ${data.reason}`,
};

export function sentence(envelope) {
  const tell = SENTENCES[nameOf(envelope.type)];
  return tell ? tell(envelope.data) : `not known to this page · ${counted(Object.keys(envelope.data).length, "field")}`;
}

const ranges = (turns) => turns.map(({ first, last }) => (first === last ? `turn ${first}` : `turns ${first}–${last}`)).join(", ");
const listed = (values) => Object.entries(values).map(([name, value]) => `${name} ${value}`).join(", ");

function spent({ usage, cost, timings }) {
  const took = timings ? [seconds(timings.total)] : [];
  return [...took, tokens(usage), `cost ${money(cost.micro_dollars)}`];
}

function tokens(usage) {
  if (usage.known === "unknown") return "tokens unknown";
  const [sent, got] = [usage.input_tokens, usage.output_tokens].map((n) => (n === undefined ? "unknown" : figure(n)));
  return `${usage.known === "estimated" ? "about " : ""}${sent} → ${got} tokens`;
}
