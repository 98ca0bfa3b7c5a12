// Formatting of small values: numbers, money, times, digests, quoted text.

const number = new Intl.NumberFormat("en");
const clockTime = new Intl.DateTimeFormat("en", { timeStyle: "medium", hourCycle: "h23" });
const dayTime = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const SPANS = [["year", 31_536_000], ["month", 2_592_000], ["day", 86_400], ["hour", 3_600], ["minute", 60]];

export const formatNumber = (value) => number.format(value);
export const formatCount = (count, thing) => `${formatNumber(count)} ${thing}${count === 1 ? "" : "s"}`;
export const formatTime = (time) => clockTime.format(new Date(time));
export const formatDateTime = (time) => dayTime.format(new Date(time));
export const formatPercent = (share) => `${Math.round(share * 100)}%`;
const WHITE_SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
const LOW_CONTROLS = /[\x00-\x1f]/gu;
const HIGH_CONTROLS = /[\x7f-\x9f]/gu;

// Rounds to tenths of a second as the command line does.
export function formatDuration(ms) {
  const tenths = Math.floor((ms + 50) / 100);
  return ms >= 1000 ? `${Math.floor(tenths / 10)}.${tenths % 10} s` : `${ms} ms`;
}

// Replaces white space by single spaces and makes control characters visible.
export function formatOneLine(text) {
  return text.split(WHITE_SPACE).filter(Boolean).join(" ")
    .replace(LOW_CONTROLS, (control) => String.fromCharCode(0x2400 + control.charCodeAt(0)))
    .replace(HIGH_CONTROLS, "\ufffd");
}

export function formatAge(time) {
  const past = (Date.now() - new Date(time).getTime()) / 1000;
  for (const [span, length] of SPANS) {
    if (past >= length) return relative.format(-Math.floor(past / length), span);
  }
  return past < 10 ? "just now" : `${Math.floor(past)} s ago`;
}

// Says if an amount is a guess; an unknown one is an empty text, not zero.
export function formatMoney(micro, isGuessed = false) {
  if (micro === null || micro === undefined) return "";
  const dollars = micro / 1_000_000;
  const amount = micro % 10_000 === 0 ? `$${dollars.toFixed(2)}` : `$${dollars.toFixed(6).replace(/0+$/, "")}`;
  return isGuessed ? `${amount} (guessed)` : amount;
}

// An amount to the cent, for where it is one of many figures.
export const formatCents = (micro) => (micro === null ? "" : `$${(micro / 1_000_000).toFixed(2)}`);

// What is known of a cost, `≥` if that is not all of it; an empty text if nothing is known.
export function formatCost(cost) {
  const isPart = cost.unpriced_calls && cost.micro_dollars !== null;
  return `${isPart ? "≥ " : ""}${formatMoney(cost.micro_dollars, cost.guessed)}`;
}

// The cost of several calls, and how many of them have no price.
export function formatCostSum(cost) {
  const lacking = cost.unpriced_calls ? `${formatCount(cost.unpriced_calls, "call")} without a price` : "";
  return [formatCost(cost), lacking].filter(Boolean).join(" · ");
}

// What a session cost, and after a plus what the children did that its turns asked.
export function formatSessionCost({ usage, children_usage: theirs }) {
  return [usage, theirs].map((part) => (part ? formatCostSum(part.cost) : "")).filter(Boolean).join(" + ");
}

// `sha256:` and twelve digits; an event of a withheld text has the word `withheld` in place of a digest.
export const formatDigest = (digest) => digest.replace(/^([^:]*:.{12}).*$/u, "$1");

// A text may be sealed or erased; then only its length is shown.
export function readContent(content) {
  if (!content) return "";
  if (content.text !== undefined) return content.text;
  return `(${content.erased ? "erased" : "sealed"}, ${formatCount(content.characters, "character")})`;
}

export const formatContent = (content) => (content?.text === undefined ? readContent(content) : `“${formatOneLine(content.text)}”`);

// The tokens of a session, `≥` if nobody counted those of some attempts.
export const formatTokenSum = (usage) => `${usage.unknown_attempts ? "≥ " : ""}${formatNumber(usage.total_tokens)}`;
