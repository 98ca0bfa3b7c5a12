// The votes on an entry of the knowledge, each with a link to its event.

import { createElement } from "../app/dom.js";
import { formatCount, formatNumber } from "../app/formatting.js";
import { linkToEvent } from "../app/links.js";

export const formatVote = (vote) => `${vote > 0 ? "+" : vote ? "−" : ""}${formatNumber(Math.abs(vote))}`;

export function renderVotes(votes, more) {
  const older = more ? [`, and ${formatCount(more, "older vote")}`] : [];
  return [...votes.flatMap((each, place) => [place ? ", " : "", renderVote(each)]), ...older];
}

function renderVote({ session, sequence, vote }) {
  const what = vote ? `voted ${formatVote(vote)}` : "took a vote back";
  return [`${what} by session ${session}, `, createElement("a", { href: linkToEvent(session, sequence) }, `event ${sequence}`)];
}
