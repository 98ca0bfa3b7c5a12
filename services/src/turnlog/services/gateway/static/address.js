// Every view of the page has an address behind the `#`, so that users can share links:
//   #/?q=words&before=17        sessions; ?origin=ID forks of one, ?digest=..&open=true those pinned to a text
//   #/sessions/ID               one session with its events
//   #/sessions/ID/events/7      one event of it
//   #/sessions/ID/at/7          its conversation as it was after that event
//   #/sessions/ID/calls/3.1     the prompt of one call
//   #/sessions/ID/calls/3.1/why            the causes of each part of that prompt
//   #/sessions/ID/calls/3.1/diff/4.1       the differences to another call; ?other=ID of another session
//   #/sessions/ID/what-if?budget=500&model=M&all=yes   its calls under a hypothetical change; all=yes for all sessions
//   #/sessions/ID/growth        the tokens of its calls by component
//   #/sessions/ID/proof         the result of verifying it
//   #/sessions/ID/version       its blueprint version, and other sessions with that version

export function here() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const steps = path.split("/").filter(Boolean).map(decoded);
  return { steps, query: new URLSearchParams(query) };
}

function decoded(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

export function to(steps, query = {}) {
  const path = `#/${steps.map((step) => encodeURIComponent(step)).join("/")}`;
  const given = Object.entries(query).filter(([, value]) => value);
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

export const toSession = (session) => to(["sessions", session]);
export const toEvent = (session, sequence) => to(["sessions", session, "events", sequence]);
export const toCall = (session, call) => to(["sessions", session, "calls", call]);
export const toAt = (session, sequence) => to(["sessions", session, "at", sequence]);
export const toWhy = (session, call) => to(["sessions", session, "calls", call, "why"]);
export const toWhatIf = (session, change = {}) => to(["sessions", session, "what-if"], change);
export const toGrowth = (session) => to(["sessions", session, "growth"]);
export const toProof = (session) => to(["sessions", session, "proof"]);
export const toVersion = (session) => to(["sessions", session, "version"]);
export const toDiff = (session, before, after, other = "") => to(["sessions", session, "calls", before, "diff", after], { other });
