// Formatting of small values: numbers, money, times, digests, quoted text.

const number = new Intl.NumberFormat("en");
const clockTime = new Intl.DateTimeFormat("en", { timeStyle: "medium", hourCycle: "h23" });
const dayTime = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const SPANS = [["year", 31_536_000], ["month", 2_592_000], ["day", 86_400], ["hour", 3_600], ["minute", 60]];

export const figure = (value) => number.format(value);
export const counted = (count, thing) => `${figure(count)} ${thing}${count === 1 ? "" : "s"}`;
export const clock = (time) => clockTime.format(new Date(time));
export const day = (time) => dayTime.format(new Date(time));
export const percent = (share) => `${Math.round(share * 100)}%`;
export const seconds = (ms) => (ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${ms} ms`);
export const oneLine = (text) => text.trim().split(/\s+/u).join(" ");

export function ago(time) {
  const past = (Date.now() - new Date(time).getTime()) / 1000;
  for (const [span, length] of SPANS) {
    if (past >= length) return relative.format(-Math.floor(past / length), span);
  }
  return past < 10 ? "just now" : `${Math.floor(past)} s ago`;
}

// An unknown amount is shown as a word, not as zero or a dash.
export function money(micro) {
  if (micro === null || micro === undefined) return "unknown";
  const dollars = micro / 1_000_000;
  return micro % 10_000 === 0 ? `$${dollars.toFixed(2)}` : `$${dollars.toFixed(6).replace(/0+$/, "")}`;
}

export function short(digest) {
  const [algorithm, digits] = digest.split(":");
  return `${algorithm}:${digits.slice(0, 12)}`;
}

// A text may be sealed or erased; then only its length is shown.
export function said(content) {
  if (!content) return "";
  if (content.text !== undefined) return content.text;
  return `(${content.erased ? "erased" : "sealed"}, ${counted(content.characters, "character")})`;
}

export const quoted = (content) => (content?.text === undefined ? said(content) : `“${oneLine(content.text)}”`);

// Adds figures of which some may be unknown; returns the sum and whether it is complete.
export function total(values) {
  const known = values.filter((value) => value !== null && value !== undefined);
  return { sum: known.reduce((sum, value) => sum + value, 0), whole: known.length === values.length };
}
