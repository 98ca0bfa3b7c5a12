// A failure in words: its code, what it means, the recorded cause, and what to do about it.

import { createElement } from "../app/dom.js";

export function renderFailure(code, detail) {
  return createElement("div", { class: "failure" }, [code, detail].filter(Boolean).join(": "));
}
