/** When a request is sent again. */

/** How often one request is sent before its error is raised. */
const MAX_TRIES = 8;
/** Seconds to wait before another try, at most. */
const MAX_DELAY = 10;
/** Seconds after which the service may want a request again; a later one is the caller's. */
const MAX_RETRY_AFTER = 60;
const BASE_DELAY = 0.2;
const RETRIED = new Set([429, 502, 503, 504]);

/** Return the seconds until a request is sent again; null if its outcome stands. */
export function computeRetryDelay(tries: number, response: Response | null): number | null {
  if (tries >= MAX_TRIES || (response !== null && !RETRIED.has(response.status))) return null;
  const asked = response?.headers.get("Retry-After") ?? "";
  const delay = /^\d+$/.test(asked) ? Number(asked) : BASE_DELAY * 2 ** (tries - 1);
  return delay <= MAX_RETRY_AFTER ? Math.min(delay, MAX_DELAY) : null;
}

/** Wait for some seconds, or until a signal is aborted. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, seconds * 1000);
    signal?.addEventListener("abort", finish);
  });
}
