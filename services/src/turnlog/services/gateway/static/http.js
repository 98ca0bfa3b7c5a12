// The public routes, asked as any other client asks them.

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
  const headers = { accept: "application/json", "content-type": "application/json" };
  return answered(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

export function ofSession(session, ...rest) {
  return ["/v1/sessions", session, ...rest].map((step, place) => (place ? encodeURIComponent(step) : step)).join("/");
}
