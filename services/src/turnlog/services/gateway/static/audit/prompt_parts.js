// Splits the messages of a prompt into the parts of its manifest. The manifest lists the parts in order
// with their lengths in code points, so each text range can be attributed to a part.

import { formatCount } from "../app/formatting.js";
import { readReasoning } from "../app/reasoning.js";

const isIncluded = (part) => (part.role ?? null) !== null;
const hasMessage = (part) => (part.message ?? null) !== null;
const isMedia = (part) => (part.at ?? null) !== null;
// What was reasoned before an earlier reply comes after the run of history that the reply is in.
const isReplyReasoning = ({ source }) => source?.field === "answer.reasoning" || (source?.reply_of ?? null) !== null;
const isHistory = (part) => part.source?.view !== undefined;

// The texts of a message, whose content is a list where it has pictures, recordings or files.
function readText({ content }) {
  if (!Array.isArray(content)) return content ?? "";
  return content.filter(({ type }) => type === "text").map(({ text }) => text).join("");
}

const countLeadingBreaks = (text) => /^\n*/.exec(text ?? "")[0].length;

// Adds the texts of a run of history, of which the first and the last may share a message with other parts. Returns how
// much of the message of the next part they take.
function splitRun(part, next, begin, messages, passages) {
  let left = part.characters;
  let taken = 0;
  for (let at = part.message; at <= next && at < messages.length; at += 1) {
    const start = at === part.message ? begin : 0;
    const points = Array.from(readText(messages[at])).slice(start, start + left);
    const separator = at === part.message ? countLeadingBreaks(part.before) : 0;
    if (points.length || at !== next) passages[at].push({ part, text: points.slice(separator).join("") });
    left -= points.length;
    taken = at === next ? start + points.length : 0;
  }
  return taken;
}

export function splitMessages(messages, manifest) {
  const placedParts = manifest.parts.filter((part) => hasMessage(part) && !isMedia(part) && !isReplyReasoning(part));
  const passages = messages.map(() => []);
  let offset = 0;
  let calls = 0;
  placedParts.forEach((part, place) => {
    const next = placedParts[place + 1]?.message ?? messages.length;
    if (isHistory(part)) {
      offset = splitRun(part, next, offset, messages, passages);
      return;
    }
    if (part.role === "tool_call") {
      const called = messages[part.message].tool_calls[calls].function;
      passages[part.message].push({ part, text: `${called.name} ${called.arguments}` });
      [offset, calls] = next === part.message ? [offset, calls + 1] : [0, 0];
      return;
    }
    if (part.role === "reasoning") {
      const message = messages[part.message];
      const fields = part.item ? message.tool_calls[calls - 1].signature : message.reasoning;
      passages[part.message].push({ part, text: readReasoning(fields) });
      [offset, calls] = next === part.message ? [offset, calls] : [0, 0];
      return;
    }
    const points = Array.from(readText(messages[part.message]));
    const separator = countLeadingBreaks(part.before);
    passages[part.message].push({ part, text: points.slice(offset + separator, offset + part.characters).join("") });
    offset = next === part.message ? offset + part.characters : 0;
  });
  for (const part of manifest.parts.filter((each) => hasMessage(each) && isReplyReasoning(each))) {
    passages[part.message].push({ part, text: readReasoning(messages[part.message].reasoning) });
  }
  for (const part of manifest.parts.filter((each) => hasMessage(each) && isMedia(each))) {
    passages[part.message].push({ part, text: part.treatment === "dropped" ? `left out: ${part.item ?? "without a name"}` : `${part.item ?? "without a name"} · ${part.digest}` });
    for (const { message } of part.others ?? []) passages[message].push({ part, text: "left out with it" });
  }
  return passages;
}

export const listShortenedParts = (manifest) => manifest.parts.filter((part) => !isIncluded(part) || part.treatment !== "kept");

// Tools are offered outside the messages: their parts have a role but no message.
export const listToolParts = (manifest) => manifest.parts.filter((part) => part.role === "tools");

// How the schema of the answer is asked for, and why so; empty for other layers.
export function describeOutputRequest(part) {
  if (part.layer !== "output_schema" || !isIncluded(part)) return "";
  return ` · ${part.role === "response_format" ? "as response_format" : "stated in the prompt"}: ${part.rule}`;
}

export function sumByComponent(manifest) {
  const shares = new Map();
  for (const part of manifest.parts.filter(isIncluded)) {
    const share = shares.get(part.component) ?? { component: part.component, layer: part.layer, tokens: 0 };
    shares.set(part.component, { ...share, tokens: share.tokens + part.tokens });
  }
  return [...shares.values()];
}

// Each layer has its own hue, in order of appearance; history and input have fixed hues.
export function chooseLayerHues(manifest) {
  const layers = [...new Set(manifest.parts.map((part) => part.layer))];
  const turning = layers.filter((layer) => layer !== "history" && layer !== "input");
  const wheel = Object.fromEntries(turning.map((layer, place) => [layer, `hue-${place % 7}`]));
  return { history: "hue-history", input: "hue-input", ...wheel };
}

// The name by which uses of a part's source are found; empty for a source without a name of its own.
export function nameUsedSource(session, source) {
  if (!source) return "";
  if (source.segment !== undefined) return `segment:${source.segment}`;
  if (source.retrieved !== undefined) return `document:${source.collection}/${source.entry}`;
  if (source.handed !== undefined) return `turn:${source.session}/${source.turn}`;
  return source.view !== undefined && source.first === source.last ? `turn:${session}/${source.first}` : "";
}

// A source has no tag; its fields tell the kind.
export function formatSource(source) {
  if (!source) return "nowhere";
  if (source.path !== undefined) return source.user === undefined || source.user === null ? source.path : `${source.path} of ${source.user}, version ${source.version}`;
  if (source.segment !== undefined) return `segment ${source.segment}, version ${source.version}`;
  if (source.retrieved !== undefined) return `${source.collection}/${source.entry}, revision ${source.revision}, confidence ${source.confidence}`;
  if (source.handed !== undefined) return `input ${source.input} of turn ${source.turn} of the parent ${source.session}`;
  if (source.resolution !== undefined) return `event ${source.resolution}, ${Object.values(source.lines).join(", ")}`;
  if (source.field !== undefined) return `event ${source.sequence}, ${source.field}`;
  if (source.view !== undefined) return source.first === source.last ? `turn ${source.first}` : `turns ${source.first} to ${source.last}`;
  return source.of?.length ? `the blueprint, with ${formatCount(source.of.length, "value")}` : "the blueprint";
}
