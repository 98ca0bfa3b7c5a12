// Requests to the public routes, as any other client makes them.

export class ProblemError extends Error {
  constructor(status, body) {
    super(body.detail ?? `status ${status}`);
    this.status = status;
    this.code = body.code ?? "unknown";
    this.fix = body.fix ?? "";
  }
}

async function readResponse(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new ProblemError(response.status, body);
  return body;
}

export async function fetchJson(path, query = {}) {
  const parameters = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const address = parameters.length ? `${path}?${new URLSearchParams(parameters)}` : path;
  return readResponse(await fetch(address, { headers: { accept: "application/json" } }));
}

export async function postJson(path, body) {
  return readResponse(await sendPost(path, body));
}

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
