// The router: the address selects the view, and a view that is left closes its streams.

import { here } from "/page/address.js";
import { make, show } from "/page/dom.js";
import { get } from "/page/http.js";
import { sessionView } from "/page/session.js";
import { sessionsView } from "/page/sessions.js";

const room = document.getElementById("view");
let view = null;

function route() {
  const { steps, query } = here();
  const [section, session, ...rest] = steps;
  const wanted = section === "sessions" && session ? `session ${session}` : "sessions";
  if (view?.name !== wanted) {
    view?.close();
    view = { name: wanted, ...(wanted === "sessions" ? sessionsView() : sessionView(session)) };
    show(room, view.element);
  }
  view.go(rest, query);
}

const THEMES = ["auto", "light", "dark"];

function paint(theme) {
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = { auto: "◐", light: "○", dark: "●" }[theme];
}

function turnTheme() {
  const next = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  localStorage.setItem("theme", next);
  paint(next);
}

async function durability() {
  const { durability: level } = await get("/readyz");
  show(document.getElementById("durability"), make("span", { class: "badge", title: "What an accepted turn survives" }, level));
}

paint(THEMES.find((theme) => theme === localStorage.getItem("theme")) ?? "auto");
document.getElementById("theme").addEventListener("click", turnTheme);
window.addEventListener("hashchange", route);
durability().catch(() => {});
route();
