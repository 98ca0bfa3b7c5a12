// Signing in with a key, where the service asks for one. The key goes into a cookie that no script can read.

import { createElement } from "./dom.js";
import { createKeyedSender, describeProblem } from "./http_client.js";

// The view with the form; `onDone` is called when a key was accepted.
export function createSignIn(onDone) {
  const send = createKeyedSender();
  const field = createElement("input", { type: "password", id: "key", name: "key", autocomplete: "current-password", required: true, spellcheck: "false" });
  const fault = createElement("p", { class: "fault", role: "alert" });

  async function signIn(event) {
    event.preventDefault();
    fault.textContent = "";
    try {
      await send("POST", "/v1/sign-in", { key: field.value.trim() });
    } catch (problem) {
      fault.textContent = describeProblem(problem);
      field.select();
      return;
    }
    onDone();
  }

  const element = createElement(
    "form",
    { class: "sign-in", on: { submit: signIn } },
    createElement("h1", {}, "Sign in"),
    createElement("p", {}, "This service answers only those who sign in. An administrator has keys."),
    // By it a browser's store of passwords tells this key from others.
    createElement("input", { type: "text", name: "username", autocomplete: "username", value: "turnlog", hidden: true }),
    createElement("label", { for: "key" }, "Key"),
    field,
    fault,
    createElement("button", { type: "submit" }, "Sign in"),
  );
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
