/** What a request may end with instead of an answer, as classes by what the caller can do. */

import type { components } from "./api.js";

export type RequestedApproval = components["schemas"]["RequestedApproval"];

/** The problem details (RFC 9457) that a service refuses a request with. */
export interface Problem {
  status?: number;
  code?: string;
  detail?: string;
  field?: string | null;
  fix?: string | null;
  /** The limit of the user that refused a turn. */
  quota?: components["schemas"]["LimitUseView"] | null;
}

/** A request was refused or not answered; the base of all errors of this client. */
export class RequestFailed extends Error {
  /** The HTTP status; null if there was no answer. */
  readonly status: number | null;
  /** The code of the problem, such as `unknown-session`. */
  readonly code: string;
  /** The field, parameter or header at fault. */
  readonly field: string | null;
  /** What to change, if that is known. */
  readonly fix: string | null;

  constructor(
    detail: string,
    status: number | null,
    readonly problem: Problem,
  ) {
    const code = problem.code ?? String(status ?? "no-answer");
    const place = problem.field ? `${problem.field}: ` : "";
    super(`${code}: ${place}${detail}${problem.fix ? `; ${problem.fix}` : ""}`);
    this.name = new.target.name;
    this.status = status;
    this.code = code;
    this.field = problem.field ?? null;
    this.fix = problem.fix ?? null;
  }
}

/** The request cannot be understood, or a value in it cannot be; it must change. */
export class InvalidRequest extends RequestFailed {}

/** The service, or a proxy before it, does not take this request from this caller. */
export class RequestForbidden extends RequestFailed {}

/** There is no such session, turn, call, blueprint or route. */
export class NotFound extends RequestFailed {}

/** The session does not allow it as it stands; read it again and decide anew. */
export class RequestConflict extends RequestFailed {}

/** It was sent again and not answered; a command may or may not have been carried out. */
export class ServiceUnavailable extends RequestFailed {}

/** The service failed, or its stored data is not what it should be; tell the operator. */
export class ServiceFault extends RequestFailed {}

/** The answer is none that this client reads; a command may have been carried out. */
export class UnusableAnswer extends RequestFailed {}

/** The answer has a body, a line or an event beyond the limit of this client. */
export class AnswerTooLarge extends UnusableAnswer {
  constructor(detail: string) {
    super(detail, null, { code: "answer-too-large", fix: "ask for less of it, such as a page" });
  }
}

/** The answer names another address; the client goes to none that it was not given. */
export class RequestRedirected extends UnusableAnswer {
  constructor(response: Response) {
    const place = (response.headers.get("Location") ?? "").slice(0, 200);
    const fix = "give the client the address of the service itself";
    super(`the service answered with a redirection to "${place}"`, response.status, {
      code: "redirected",
      fix,
    });
  }
}

/** A turn is recorded and was not settled in time; it goes on. */
export class TurnUnsettled extends RequestFailed {
  constructor(
    /** The number of the turn. */
    readonly turn: number,
    detail = `turn ${turn} is not settled`,
    problem: Problem = { code: "unsettled" },
  ) {
    super(detail, null, problem);
  }
}

/** A turn waits for a person: it goes on when its `approvals` are decided. */
export class ApprovalNeeded extends TurnUnsettled {
  constructor(
    turn: number,
    /** The tools that wait for a decision. */
    readonly approvals: readonly RequestedApproval[],
  ) {
    const tools = approvals.map((each) => each.tool).join(", ");
    const fix = "decide it, and go on with the turn's stream";
    super(turn, `turn ${turn} waits for approval of ${tools}`, { code: "approval-needed", fix });
  }
}

/** Return the error that a response with this text describes, or that there was none. */
export function createError(
  address: URL,
  response: Response | null,
  failure: unknown,
  text = "",
): RequestFailed {
  if (response === null) {
    const reason = describeFailure(failure);
    return new ServiceUnavailable(
      `${address.origin}${address.pathname} was not answered, or its stream broke off${reason}`,
      null,
      { code: "no-answer", fix: "see that a service runs at this address, and send it again" },
    );
  }
  if (isRedirection(response)) return new RequestRedirected(response);
  const problem = parseProblem(text);
  const detail = problem.detail ?? `the service answered ${response.status}`;
  return new (chooseError(response.status))(detail, response.status, problem);
}

/** Return why nothing was answered; `fetch` has the reason of the connection as its cause. */
function describeFailure(failure: unknown): string {
  if (!(failure instanceof Error)) return "";
  const reason = failure.cause instanceof Error ? failure.cause : failure;
  return reason.message ? `: ${reason.message}` : "";
}

/** Return the problem of a response; empty where a proxy answered in another form. */
function parseProblem(text: string): Problem {
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === "object" && found !== null ? found : {};
  } catch {
    return {};
  }
}

/** In a browser a redirection that is not followed has no status. */
function isRedirection(response: Response): boolean {
  return response.type === "opaqueredirect" || (response.status >= 300 && response.status < 400);
}

function chooseError(status: number): typeof RequestFailed {
  if ([429, 502, 503, 504].includes(status)) return ServiceUnavailable;
  if ([401, 403, 421].includes(status)) return RequestForbidden;
  if ([404, 410].includes(status)) return NotFound;
  if (status === 409) return RequestConflict;
  return status >= 500 ? ServiceFault : InvalidRequest;
}
