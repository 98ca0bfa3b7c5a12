// One session: what was said on the left, what the log holds on the right, both live. The past is
// read once; from there on one stream of events tells everything, and one per open turn its words.

import { to, toCall, toSession } from "/page/address.js";
import { conversation } from "/page/conversation.js";
import { make, show } from "/page/dom.js";
import { get, ofSession } from "/page/http.js";
import { promptPane } from "/page/prompt.js";
import { record } from "/page/record.js";
import { nameOf } from "/page/sentences.js";
import { counted, figure, money, oneLine, total } from "/page/words.js";

const PAST = 200;
const MOVES_CALLS = ["context-assembled", "attempt-ended", "call-completed"];

export function sessionView(session) {
  const head = make("header", { class: "head" });
  const tabs = make("nav", { class: "tabs" });
  const side = make("section", { class: "side" }, tabs);
  const chat = conversation(session);
  const element = make("div", { class: "session" }, head, make("div", { class: "panes" }, chat.element, side));
  const log = record(session);
  const prompt = promptPane(session);
  let facts = null;
  let calls = [];
  let live = null;
  let rest = [];
  let refreshing = null;
  let closed = false;

  async function open() {
    facts = await get(ofSession(session));
    const from = Math.max(0, facts.sequence - PAST);
    const [page, told] = await Promise.all([
      get(ofSession(session, "events"), { after: from, limit: 1000 }),
      get(ofSession(session, "history")),
    ]);
    if (closed) return;
    log.begin(page.events);
    chat.begin(told, facts);
    follow(page.after);
    await refreshCalls();
  }

  function follow(after) {
    live = new EventSource(`${ofSession(session, "events")}?after=${after}`);
    for (const name of log.names) live.addEventListener(name, (event) => take(JSON.parse(event.data)));
  }

  function take(envelope) {
    log.add(envelope);
    chat.take(envelope);
    facts.sequence = envelope.sequence;
    const name = nameOf(envelope.type);
    if (name === "session-closed") facts.closed = true;
    if (name === "turn-submitted" || name === "turn-queued") facts.turns += 1;
    if (MOVES_CALLS.includes(name)) refreshCalls(envelope.sequence);
    unverified();
    drawHead();
  }

  // The rows of calls follow the log a moment later, so this asks for those of the event just seen
  async function refreshCalls(sequence = facts.sequence) {
    refreshing = Math.max(refreshing ?? 0, sequence);
    const wanted = refreshing;
    const found = await get(ofSession(session, "calls"), { min_sequence: wanted }).catch(() => null);
    if (!found || closed || wanted < refreshing) return;
    calls = found.calls;
    chat.price(calls);
    drawHead();
    drawSide();
  }

  function drawHead() {
    const first = chat.title();
    document.title = first ? `${oneLine(first).slice(0, 60)} · Turnlog` : "Turnlog";
    const used = total(calls.flatMap((call) => [call.input_tokens, call.output_tokens]));
    const paid = total(calls.map((call) => call.micro_dollars));
    show(head,
      make("a", { class: "back", href: to([]), title: "All sessions" }, "←"),
      make("div", { class: "name" }, make("h1", {}, first ? oneLine(first) : session), make("div", { class: "id" }, session)),
      make("dl", {},
        fact("blueprint", `${facts.blueprint} v${facts.version}`),
        fact("profile", facts.profile),
        fact("turns", figure(facts.turns)),
        fact("events", figure(facts.sequence)),
        fact("tokens", used.whole ? figure(used.sum) : `≥ ${figure(used.sum)}`),
        fact("cost", paid.whole ? money(paid.sum) : paid.sum ? `≥ ${money(paid.sum)}` : "unknown")),
      facts.closed ? make("span", { class: "badge closed" }, "closed") : null,
      verdict);
  }

  const verdict = make("button", { class: "quiet verify", type: "button", on: { click: verify } }, "verify");

  function unverified() {
    verdict.className = "quiet verify";
    show(verdict, "verify");
  }

  async function verify() {
    show(verdict, "verifying …");
    const found = await get(ofSession(session, "verify"));
    verdict.className = `quiet verify ${found.verified ? "good" : "bad"}`;
    const first = found.findings[0];
    show(verdict, found.verified
      ? `✓ ${counted(found.events, "event")}, ${counted(found.prompts.calls, "prompt")}`
      : `✗ ${first.check}: ${first.detail}`);
    verdict.title = `head ${found.head}`;
  }

  function drawSide() {
    const [what, which] = rest;
    const call = what === "calls" ? which : null;
    const last = calls.at(-1)?.call;
    show(tabs,
      make("a", { href: toSession(session), "aria-current": call ? null : "page" }, "Record"),
      last ? make("a", { href: toCall(session, call ?? last), "aria-current": call ? "page" : null }, "Prompts") : null);
    const pane = call ? prompt.element : log.element;
    const turned = pane.parentNode !== side;
    if (turned) show(side, tabs, pane);
    if (call) prompt.show(call, calls);
    else if (what === "events") log.open(Number(which));
    else {
      log.open(null);
      if (turned) log.atEnd();
    }
    chat.mark(call);
  }

  const opening = open().then(drawSide).catch((problem) => {
    show(element, make("div", { class: "empty" }, make("p", { class: "fault" }, problem.message),
      make("p", {}, make("a", { href: to([]) }, "← all sessions"))));
  });

  return {
    element,
    close: () => { closed = true; live?.close(); chat.close(); },
    go: (steps) => { rest = steps; opening.then(() => facts && drawSide()); },
  };
}

const fact = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, value));
