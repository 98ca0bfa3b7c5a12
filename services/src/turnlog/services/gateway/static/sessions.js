// The session list: newest first, searched while the user types, refreshed every few seconds. The cost of
// a session is fetched only when its row is new or has changed.

import { here, to, toSession } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { get, ofSession } from "/page/http.js";
import { ago, counted, day, figure, money, oneLine, short, total } from "/page/words.js";

const LOOK_EVERY = 4000;
const PAGE = 50;

export function sessionsView() {
  const search = make("input", {
    type: "search", class: "search", placeholder: "Search sessions by id or first words", "aria-label": "Search",
    on: { input: () => history.replaceState(null, "", to([], { ...filters(here().query), q: search.value })) || look() },
  });
  const only = make("p", { class: "only" });
  const count = make("span", { class: "faint" });
  const list = make("div", { class: "list" });
  const foot = make("nav", { class: "pages" });
  const element = make("section", { class: "sessions" }, make("div", { class: "tools" }, search, count), only, list, foot);
  const costs = new Map();
  let asked = 0;

  async function look() {
    const { query } = here();
    const number = (asked += 1);
    try {
      const page = await get("/v1/sessions", { ...filters(query), q: query.get("q") || null, before: query.get("before"), limit: PAGE });
      if (number !== asked || list.contains(document.activeElement)) return;
      draw(page, query);
    } catch (problem) {
      if (number === asked) show(list, make("p", { class: "fault" }, `${problem.message}. ${problem.fix ?? ""}`));
    }
  }

  function draw(page, query) {
    show(count, page.sessions.length ? counted(page.sessions.length, "session") + (page.next ? " of more" : "") : "");
    show(only, told(query));
    show(list, page.sessions.length ? table(page.sessions) : nothing(query));
    show(foot, page.next ? make("a", { href: to([], { ...filters(query), q: query.get("q"), before: page.next }) }, "older →") : null);
  }

  function table(sessions) {
    const heads = ["session", "blueprint", "turns", "last activity", "tokens", "cost"];
    const head = make("tr", {}, heads.map((name, place) => make("th", { class: place === 2 || place > 3 ? "number" : null }, name)));
    return make("table", {}, make("thead", {}, head), make("tbody", {}, sessions.map(row)));
  }

  function row(session) {
    const tokens = make("td", { class: "number" });
    const cost = make("td", { class: "number" });
    fill(session, tokens, cost);
    const marks = [session.redacted && "redacted", session.closed_at && "closed"].filter(Boolean);
    return make("tr", { on: { click: () => { location.hash = toSession(session.session); } } },
      make("td", { class: "title" },
        make("a", { href: toSession(session.session) }, session.title ? oneLine(session.title) : "(nothing said yet)"),
        marks.map((mark) => make("span", { class: `badge ${mark}` }, mark)),
        make("div", { class: "id" }, session.session)),
      make("td", {}, session.blueprint, make("span", { class: "faint" }, ` v${session.version}`)),
      make("td", { class: "number" }, figure(session.turns)),
      make("td", { title: day(session.last_at) }, ago(session.last_at)),
      tokens, cost);
  }

  async function fill(session, tokens, cost) {
    const key = `${session.session} ${session.sequence}`;
    if (!costs.has(key)) costs.set(key, get(ofSession(session.session, "calls")).catch(() => null));
    const found = await costs.get(key);
    if (!found) return;
    const used = total(found.calls.flatMap((call) => [call.input_tokens, call.output_tokens]));
    const paid = total(found.calls.map((call) => call.micro_dollars));
    show(tokens, atLeast(used, figure));
    show(cost, atLeast(paid, money));
  }

  const looking = setInterval(() => document.hidden || look(), LOOK_EVERY);
  return {
    element,
    close: () => clearInterval(looking),
    go: (_, query) => {
      if (document.activeElement !== search) search.value = query.get("q") ?? "";
      document.title = "Turnlog";
      look();
    },
  };
}

const atLeast = ({ sum, whole }, spell) => (whole ? spell(sum) : sum ? `≥ ${spell(sum)}` : "unknown");

// The address may have other parameters; these narrow the list.
const filters = (query) => Object.fromEntries(["origin", "digest", "open"].filter((name) => query.has(name)).map((name) => [name, query.get(name)]));

function told(query) {
  const { origin, digest, open } = filters(query);
  const said = [origin ? `forks of ${origin}` : null, digest ? `pinned to ${short(digest)}` : null, { true: "still open", false: "closed" }[open]].filter(Boolean);
  return said.length ? [`only those ${said.join(", ")} · `, make("a", { href: to([]) }, "all sessions")] : null;
}

function nothing(query) {
  const searched = query.get("q");
  if (told(query)) return make("p", { class: "empty" }, "There is no such session.");
  if (searched) return make("p", { class: "empty" }, `No session has “${searched}” in its id or its first words.`);
  const command =
    `curl ${location.origin}/v1/sessions -H 'Content-Type: application/json' \\\n  -d '{"blueprint": "assistant"}'`;
  return make("div", { class: "empty" }, make("p", {}, "No session is open yet. This opens one:"), make("pre", {}, command));
}
