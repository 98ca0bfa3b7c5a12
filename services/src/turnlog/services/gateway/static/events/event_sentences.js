// One sentence per event, rendered from the templates of `event_catalogue.js`. The command line renders
// the same templates in cli/views/event_view.py and has the same filters.

import { formatContent, formatCount, formatDigest, formatDuration, formatMoney, formatNumber, formatOneLine } from "../app/formatting.js";
import { EVENT_FAMILIES, EVENT_TEMPLATES, UNKNOWN_EVENT_TEMPLATE } from "./event_catalogue.js";

export const formatEventName = (type) => type.replace(/^turnlog\./, "").replace(/\.v\d+$/, "");
export const getEventFamily = (name) => EVENT_FAMILIES[name] ?? "unknown";

export function describeEvent(envelope) {
  const template = EVENT_TEMPLATES[formatEventName(envelope.type)];
  if (template) return renderTemplate(template, envelope.data);
  return renderTemplate(UNKNOWN_EVENT_TEMPLATE, { fields: Object.keys(envelope.data).length });
}

// An array within a template is an optional group: it is left out when one of its placeholders is empty.
function renderTemplate(template, fields) {
  const pieces = template.map((item) => (Array.isArray(item) ? renderGroup(item, fields) : renderItem(item, fields)));
  return formatOneLine(pieces.join(""));
}

function renderGroup(group, fields) {
  const pieces = group.map((item) => renderItem(item, fields));
  return pieces.every(Boolean) ? pieces.join("") : "";
}

const renderItem = (item, fields) => (typeof item === "string" ? item : formatValue(evaluatePlaceholder(item, fields)));

function evaluatePlaceholder({ path, filters }, fields) {
  let value = getField(path, fields);
  for (const [name, argument] of filters) {
    if (value !== null || FILTERS_OF_MISSING_VALUES.includes(name)) value = FILTERS[name](value, argument, fields);
  }
  return value;
}

const getField = (path, fields) => path.reduce((value, name) => value?.[name] ?? null, fields);

function formatValue(value) {
  if (value === null || typeof value === "string") return value ?? "";
  return JSON.stringify(value);
}

const FILTERS_OF_MISSING_VALUES = ["else", "or"];

// The prices that no table has under the model's own name.
const GUESSED_PRICES = ["normalised", "fallback"];

const FILTERS = {
  assignments: (value) => Object.entries(value).filter(([, each]) => each !== null).map(([name, each]) => `${name}=${formatValue(each)}`).join(" · "),
  content: formatContent,
  cost: (cost) => formatMoney(cost.micro_dollars, GUESSED_PRICES.includes(cost.price)),
  count: (value, thing) => formatCount(Array.isArray(value) ? value.length : value, thing),
  digest: formatDigest,
  duration: formatDuration,
  else: (value, text) => value || text,
  files: (value) => Object.entries(value).map(([layer, file]) => `${layer} ← ${file.path}`).join(", "),
  flag: (value, text) => (value ? text : null),
  included: (parts) => parts.filter((part) => (part.role ?? null) !== null),
  keys: (value) => Object.keys(value).join(", "),
  list: (value) => value.join(", "),
  or: (value, path, fields) => value || getField(path.split("."), fields),
  pairs: (value) => Object.entries(value).map(([name, each]) => `${name} ${formatValue(each)}`).join(", "),
  turns: formatTurnRanges,
  unless: (value, path, fields) => (value === getField(path.split("."), fields) ? null : value),
  usage: formatUsage,
  when: (value, text) => (value === text ? value : null),
};

// `turn 3`, `turns 1 to 4 and 6`
function formatTurnRanges(turns) {
  const runs = turns.map(({ first, last }) => (first === last ? `${first}` : `${first} to ${last}`));
  const several = turns.length > 1 || turns.some(({ first, last }) => first !== last);
  const most = runs.slice(0, -1).join(", ");
  return `turn${several ? "s" : ""} ${[most, ...runs.slice(-1)].filter(Boolean).join(" and ")}`;
}

function formatUsage(usage) {
  if (usage.known === "unknown") return "tokens unknown";
  const [sent, received] = [usage.input_tokens, usage.output_tokens].map((count) => ((count ?? null) === null ? "unknown" : formatNumber(count)));
  return `${usage.known === "estimated" ? "about " : ""}${sent} → ${received} tokens`;
}
