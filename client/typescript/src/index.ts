/** A client of a Turnlog service over HTTP; this module is all that an application imports. */

export * from "./client.js";
export * from "./errors.js";
export { END_EVENTS, isReplyEvent } from "./events.js";
export type {
  DebriefDone,
  ExchangeDone,
  ReplyDone,
  ReplyEvent,
  SessionEvent,
  SseMessage,
  TurnEvent,
} from "./events.js";
