// Requests to the public routes, as any other client makes them.

export class Problem extends Error {
  constructor(status, body) {
    super(body.detail ?? `status ${status}`);
    this.status = status;
    this.code = body.code ?? "unknown";
    this.fix = body.fix ?? "";
  }
}

async function answered(response) {
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Problem(response.status, body);
  return body;
}

export async function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const address = given.length ? `${path}?${new URLSearchParams(given)}` : path;
  return answered(await fetch(address, { headers: { accept: "application/json" } }));
}

export async function post(path, body) {
  return answered(await sent(path, body));
}

// Yields the values of an NDJSON response as they arrive.
export async function* lines(path, body) {
  const response = await sent(path, body);
  if (!response.ok) await answered(response);
  let rest = "";
  for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
    const whole = (rest + piece).split("\n");
    rest = whole.pop();
    for (const line of whole) yield JSON.parse(line);
  }
}

function sent(path, body) {
  const headers = { accept: "application/json", "content-type": "application/json" };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
}

export function ofSession(session, ...rest) {
  return ["/v1/sessions", session, ...rest].map((step, place) => (place ? encodeURIComponent(step) : step)).join("/");
}
