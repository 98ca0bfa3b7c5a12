// Requests to the public routes, as any other client makes them.

export class ProblemError extends Error {
  constructor(status, body) {
    super(body.detail ?? `status ${status}`);
    this.status = status;
    this.code = body.code ?? "unknown";
    this.field = body.field ?? "";
    this.fix = body.fix ?? "";
  }
}

// What went wrong and what to do about it, in words.
export const describeProblem = (problem) => [problem.message, problem.fix].filter(Boolean).join(" · ");

// Told to the page when the service asks who one is.
export const SIGN_IN_NEEDED = "sign-in-needed";

async function readResponse(response) {
  if (response.status === 401 && !response.url.endsWith("/v1/sign-in")) window.dispatchEvent(new Event(SIGN_IN_NEEDED));
  if (response.status === 204) return null;
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new ProblemError(response.status, body);
  return body;
}

export async function fetchJson(path, query = {}) {
  const parameters = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const address = parameters.length ? `${path}?${new URLSearchParams(parameters)}` : path;
  return readResponse(await fetch(address, { headers: { accept: "application/json" } }));
}

// Returns a function that sends commands, each press under an idempotency key of its own. The same command
// keeps its key until it is answered, so that pressing again after a lost answer carries nothing out twice.
export function createKeyedSender() {
  const keys = new Map();
  return async (method, path, body = null) => {
    const content = body === null ? undefined : JSON.stringify(body);
    const command = [method, path, content].join(" ");
    if (!keys.has(command)) keys.set(command, createKey());
    const headers = { accept: "application/json", "content-type": "application/json", "idempotency-key": keys.get(command) };
    const response = await fetch(path, { method, headers, body: content });
    if (response.status < 500) keys.delete(command);
    return readResponse(response);
  };
}

// Uploads bytes; the same bytes are stored once, so that no key is needed.
export const sendBytes = async (path, bytes) =>
  readResponse(await fetch(path, { method: "POST", headers: { accept: "application/json", "content-type": "application/octet-stream" }, body: bytes }));

// `crypto.randomUUID` exists only on https and loopback.
const createKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// Yields the values of an NDJSON response as they arrive.
export async function* streamLines(path, body) {
  const response = await sendPost(path, body);
  if (!response.ok) await readResponse(response);
  let rest = "";
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    const complete = (rest + chunk).split("\n");
    rest = complete.pop();
    for (const line of complete) yield JSON.parse(line);
  }
}

function sendPost(path, body) {
  const headers = { accept: "application/json", "content-type": "application/json" };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
}

export function buildSessionPath(session, ...rest) {
  return ["/v1/sessions", session, ...rest].map((step, place) => (place ? encodeURIComponent(step) : step)).join("/");
}
