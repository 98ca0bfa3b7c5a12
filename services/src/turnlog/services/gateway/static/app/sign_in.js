// Signing in with a key or at an issuer, where the service asks for it. What signs in goes into a cookie that no script can read.

import { createElement } from "./dom.js";
import { createKeyedSender, describeProblem, fetchJson } from "./http_client.js";

// What the gateway says in the address of the page when a sign-in at the issuer came to nothing.
const FAILURES = {
  denied: "The issuer did not let you in.",
  refused: "The sign-in at the issuer does not count here: try again, or ask an administrator.",
  unavailable: "The issuer does not answer: try again later.",
};

// Each view that is refused shows the form anew, and the reason stays until one signs in.
let failure = FAILURES[location.hash.replace("#sign-in-", "")] ?? "";
if (failure) history.replaceState(null, "", location.pathname);

// The view with the form; `onDone` is called when a key was accepted.
export function createSignIn(onDone) {
  const send = createKeyedSender();
  const field = createElement("input", { type: "password", id: "key", name: "key", autocomplete: "current-password", required: true, spellcheck: "false" });
  const fault = createElement("p", { class: "fault", role: "alert" });

  async function signIn(event) {
    event.preventDefault();
    fault.textContent = failure = "";
    try {
      await send("POST", "/v1/sign-in", { key: field.value.trim() });
    } catch (problem) {
      fault.textContent = describeProblem(problem);
      field.select();
      return;
    }
    onDone();
  }

  const form = createElement(
    "form",
    { on: { submit: signIn } },
    // By it a browser's store of passwords tells this key from others.
    createElement("input", { type: "text", name: "username", autocomplete: "username", value: "turnlog", hidden: true }),
    createElement("label", { for: "key" }, "Key"),
    field,
    createElement("button", { type: "submit" }, "Sign in"),
  );
  const issuer = createElement("a", { class: "issuer", hidden: true });
  const element = createElement(
    "div",
    { class: "sign-in" },
    createElement("h1", {}, "Sign in"),
    createElement("p", {}, "This service answers only those who sign in."),
    issuer,
    form,
    fault,
  );

  async function offerWays() {
    const ways = await fetchJson("/v1/sign-in");
    form.hidden = !ways.key;
    issuer.hidden = !ways.issuer;
    if (!ways.issuer) return;
    issuer.textContent = `Sign in at ${new URL(ways.issuer).host}`;
    issuer.href = `/v1/sign-in/issuer?place=${encodeURIComponent(location.hash)}`;
  }

  fault.textContent = failure;
  offerWays().catch((problem) => { fault.textContent = describeProblem(problem); });
  return { element, focus: () => field.focus() };
}

// The button with which one signs out, and what one is signed in as.
export function createSignOut(principal, onDone) {
  const send = createKeyedSender();
  const leave = async () => {
    await send("DELETE", "/v1/sign-in");
    onDone();
  };
  const name = principal.actor.replace(/^(key|user):/, "");
  return createElement("button", { class: "quiet", type: "button", title: `Signed in as ${principal.actor}: sign out`, on: { click: leave } }, `${name} · sign out`);
}
