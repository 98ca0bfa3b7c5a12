// Every view of the page has an address behind the `#`, so that users can share links:
//   #/?hours=24                 the overview: what goes on, and how context grows
//   #/sessions?q=words&before=17  sessions; ?origin=ID forks and children of one, ?digest=..&open=true those pinned to a text, and the other
//                               filters of `GET /v1/sessions`: blueprint, profile, phase, redacted, failed, attribute.NAME
//   #/blueprints/NAME?days=30   a blueprint: its versions side by side, and a usual session of it
//   #/usage?group_by=user       what turns used, also by attribute.NAME; user, since and until narrow it
//   #/approvals?state=approved   approvals of all sessions, by default those that wait; user narrows them
//   #/uses?source=segment:7     which calls and replies had a source in their prompt
//   #/sessions/ID?turn=3        one session with its events, filtered by family, type, turn and text
//   #/sessions/ID/events/7      one event of it
//   #/sessions/ID/at/7          its conversation as it was after that event
//   #/sessions/ID/calls/3.1     the prompt of one call
//   #/sessions/ID/calls/3.1/why            the causes of each part of that prompt
//   #/sessions/ID/calls/3.1/diff/4.1       the differences to another call; ?other=ID of another session
//   #/sessions/ID/what-if?budget=500&model=M&all=yes   its calls under a hypothetical change; all=yes for all sessions
//   #/sessions/ID/turns/3       where the time of a turn went
//   #/sessions/ID/growth        the tokens of its calls by component
//   #/sessions/ID/proof         the result of verifying it
//   #/sessions/ID/version       its blueprint version, and other sessions with that version

export function readLocation() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const steps = path.split("/").filter(Boolean).map(decodeStep);
  return { steps, query: new URLSearchParams(query) };
}

function decodeStep(step) {
  try {
    return decodeURIComponent(step);
  } catch {
    return step;
  }
}

export function linkTo(steps, query = {}) {
  const path = `#/${steps.map((step) => encodeURIComponent(step)).join("/")}`;
  const parameters = Object.entries(query).filter(([, value]) => value);
  return parameters.length ? `${path}?${new URLSearchParams(parameters)}` : path;
}

export const linkToOverview = (hours) => linkTo([], { hours });
export const linkToSessions = (filters = {}) => linkTo(["sessions"], filters);
export const linkToBlueprint = (blueprint, days) => linkTo(["blueprints", blueprint], { days });
export const linkToUsage = (choice = {}) => linkTo(["usage"], choice);
export const linkToApprovals = (choice = {}) => linkTo(["approvals"], choice);
export const linkToUses = (source, after = "") => linkTo(["uses"], { source, after });
export const linkToSession = (session) => linkTo(["sessions", session]);
export const linkToEvent = (session, sequence) => linkTo(["sessions", session, "events", sequence]);
export const linkToCall = (session, call) => linkTo(["sessions", session, "calls", call]);
export const linkToPast = (session, sequence) => linkTo(["sessions", session, "at", sequence]);
export const linkToTimeline = (session, turn) => linkTo(["sessions", session, "turns", turn]);
export const linkToWhy = (session, call) => linkTo(["sessions", session, "calls", call, "why"]);
export const linkToWhatIf = (session, change = {}) => linkTo(["sessions", session, "what-if"], change);
export const linkToGrowth = (session) => linkTo(["sessions", session, "growth"]);
export const linkToVerification = (session) => linkTo(["sessions", session, "proof"]);
export const linkToVersion = (session) => linkTo(["sessions", session, "version"]);
export const linkToDiff = (session, before, after, other = "") => linkTo(["sessions", session, "calls", before, "diff", after], { other });
