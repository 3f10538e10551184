/// <reference lib="esnext.disposable" />

/**
 * Starts a sandbox: the email service on a free port of this machine, in memory. It ends with `stop`, at the end of
 * `await using`, or with this process, even if that is killed.
 */
export function startSandbox(): Promise<Sandbox>;

export interface Sandbox {
  /** The base URL of the services, and of the control interface below `/_sandbox/`. */
  readonly url: string;
  /** The variables that `svc sandbox exec` sets, for the application under test. */
  readonly env: Readonly<Record<Variable, string>>;
  readonly messages: Messages;
  readonly clock: Clock;
  /** Returns when all that is due has happened: mail, events and webhook deliveries. */
  settle(): Promise<void>;
  /** What is due next by the sandbox's clock, at most 100, the earliest first. */
  due(): Promise<Due[]>;
  /** Makes the next requests of an operation, such as `emails.send`, fail or wait. */
  fault(operation: string, fault: FaultOptions): Promise<Fault>;
  /** Makes a step of the next SMTP sessions fail or wait. */
  smtpFault(step: "connect" | "auth" | "mail" | "rcpt" | "data", fault: SmtpFaultOptions): Promise<Fault>;
  /** Subscribes a receiver in this process, which verifies what it gets, to events of one service. */
  webhook(events: WebhookEvent[]): Promise<Hook>;
  /** Subscribes a receiver of the application. */
  webhook(events: WebhookEvent[], options: { url: string | URL }): Promise<Webhook>;
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface Messages {
  /** The newest message that fits, at once or when it arrives. The error tells what arrived instead. */
  wait(query: MessageQuery & Timeout & { to: string }): Promise<Mail>;
  /** What arrived, the oldest first, once all that is due has happened. */
  all(query?: MessageQuery): Promise<Mail[]>;
  /** The subjects of what arrived, the oldest first, once all that is due has happened. */
  subjects(query?: MessageQuery): Promise<string[]>;
  /**
   * The features of HTML and CSS in a message that not all of these mail programs support: by default Apple Mail, Gmail
   * and Outlook.
   */
  check(message: Mail, options?: { programs?: string[] }): Promise<string[]>;
  /** Deletes what arrived, once all that is due has happened. */
  delete(query?: MessageQuery): Promise<void>;
}

export interface MessageQuery {
  /** The whole address, in any case. */
  to?: string;
  /** The whole address, in any case. */
  from?: string;
  /** Words, each part of an address, a name, the subject, the text or the ID. */
  search?: string;
  /** A part of the subject, in any case, or what it matches. */
  subject?: string | RegExp;
}

export interface Timeout {
  /** In milliseconds of real time; 4000 by default, less than what vitest and jest give a test. */
  timeout?: number;
}

export interface Mail {
  id: string;
  /** Of its email; null for a message that was received. */
  emailId: string | null;
  createdAt: string;
  /** Of its email; null for a message that was received. */
  tags: Record<string, string> | null;
  from: string;
  to: string[];
  cc: string[];
  /** The address that it was delivered to. */
  recipient: string;
  /** Empty if there is none. */
  subject: string;
  text: string | null;
  html: string | null;
  /** A field that is there several times has each of its values on a line. */
  headers: Record<string, string>;
  attachments: Attachment[];
  /** `url` is where a link leads, and `tracked_url` the address in the message if clicks are tracked. */
  links: { url: string; tracked_url: string | null; text: string | null }[];
  /** The first of `codes`. */
  code: string | undefined;
  /** The one-time codes, those with six digits first. */
  codes: string[];
  /** Where the first link leads whose text contains this, in any case, or matches it. A bare URL is its own text. */
  link(text?: string | RegExp): URL;
}

export interface Attachment {
  filename: string | null;
  contentType: string;
  contentId: string | null;
  /** In bytes. */
  size: number;
  bytes(): Promise<Uint8Array>;
  text(): Promise<string>;
}

export interface Clock {
  /** Moves the clock, and returns when all that fell due has happened. */
  advance(by: Duration | { days?: number; hours?: number; minutes?: number; seconds?: number }): Promise<void>;
  /** The time of the sandbox. */
  now(): Promise<Date>;
}

/** Something that is due. */
export interface Due {
  at: Date;
  kind: "email" | "recipient" | "relay" | "message" | "delivery" | "expiry";
  /** The ID of the email, of the message or of the delivery; the key of an expiry. */
  subject: string;
  /** What happens, to whom and why. */
  description: string;
}

export type Duration = `${number}${"ms" | "s" | "m" | "h" | "d"}`;

export interface FaultOptions {
  /** How many requests it applies to; 1 by default. */
  times?: number;
  /** How many requests pass first. */
  skip?: number;
  /** Respond with this status instead of processing the request. */
  status?: number;
  /** The header `Retry-After` of that response, in seconds. */
  retryAfter?: number;
  /** Of that response; by default the service's own error for the status. */
  body?: unknown;
  /** Of that response. */
  headers?: Record<string, string>;
  /** Wait before anything else, in real time. */
  latency?: Duration;
  /** Cut the connection: before the request is processed, after it is, or midway through the response. */
  drop?: "before" | "after" | "midway";
}

export interface SmtpFaultOptions {
  /** How many steps it applies to; 1 by default, and without limit with `greylist` or `share`. */
  times?: number;
  /** How many steps pass first. */
  skip?: number;
  /** The code of the reply, from 400. */
  status?: number;
  /** The text of the reply. */
  text?: string;
  /** Only recipients like this, such as `*@slow.test`. */
  to?: string;
  /** Only envelope senders like this. */
  sender?: string;
  /** Refuse each sender and recipient once, then accept them; for `rcpt`. */
  greylist?: boolean;
  /** The share of the steps that it applies to, evenly spread. */
  share?: number;
  /** Wait before the reply, in real time. */
  latency?: Duration;
  /** Write the reply byte by byte, during the latency. */
  slow?: boolean;
  /** Close the connection in place of the reply: before the step is processed, or after it. */
  drop?: "before" | "after";
}

export interface Fault {
  /** How many requests it has affected. */
  hits(): Promise<number>;
  remove(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface Webhook {
  readonly url: string | URL;
  /** The signing secret. */
  readonly secret: string;
}

export interface Hook extends Webhook {
  /** The oldest delivery that was not yet returned, of this event or of any. The error tells what arrived instead. */
  next(event?: WebhookEvent, options?: Timeout): Promise<Delivery>;
}

export interface Delivery {
  event: WebhookEvent;
  id: string;
  created: string;
  data: { recipient?: string; [field: string]: unknown };
}

export type WebhookEvent =
  | "email.sent"
  | "email.delivered"
  | "email.bounced"
  | "email.opened"
  | "email.clicked"
  | "email.complained"
  | "email.failed"
  | "email.received"
  | "extraction.completed"
  | "extraction.failed";

/** Those of `svc sandbox exec`. */
export type Variable =
  | "SANDBOX_URL"
  | "EMAIL_URL"
  | "EMAIL_KEY"
  | "EMAIL_FROM"
  | "EXTRACTION_URL"
  | "EXTRACTION_KEY"
  | "SMTP_HOST"
  | "SMTP_PORT"
  | "SVC_EMAIL_URL"
  | "SVC_EMAIL_KEY"
  | "SVC_EXTRACTION_URL"
  | "SVC_EXTRACTION_KEY"
  | "SVC_SANDBOX"
  | "SVC_SANDBOX_URL";
