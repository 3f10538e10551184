// The sandbox, as tests need it. Copy this file.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export interface Message {
  id: string;
  from: string;
  subject: string;
  text: string;
  html: string;
  links: { url: string }[];
  codes: string[];
  attachments: { filename: string }[];
}

export interface Delivery {
  id: string;
  attempts: { status: number | null }[];
}

/** A server of its own: in memory, on a free port, and ended with this process. */
export class Sandbox {
  readonly key = "mk_test_sandbox";

  private constructor(
    readonly url: string,
    private readonly process: ChildProcess,
  ) {}

  static async start(): Promise<Sandbox> {
    const options = ["--addr", "127.0.0.1:0", "--in-memory", "--until-stdin-closes"];
    const server = spawn(process.env.SVC ?? "svc", ["--quiet", "sandbox", "serve", ...options], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    for await (const line of createInterface(server.stdout)) {
      return new Sandbox((JSON.parse(line) as { http: string }).http, server);
    }
    throw new Error("the sandbox did not start: see its error above");
  }

  async stop(): Promise<void> {
    const ended = once(this.process, "exit");
    this.process.stdin?.end();
    await ended;
  }

  async call<T>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.key}`, "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${text}`);
    return (text ? JSON.parse(text) : undefined) as T;
  }

  /** The first message that fits. The error of a wait says what arrived instead. */
  wait(to: string, subject = ""): Promise<Message> {
    return this.call("GET", `/_sandbox/messages/wait?${new URLSearchParams({ to, subject, timeout: "5s" })}`);
  }

  /** What has arrived, the oldest first. */
  async subjects(to: string): Promise<string[]> {
    await this.settle();
    const { data } = await this.call<{ data: Message[] }>("GET", `/_sandbox/messages?${new URLSearchParams({ to })}`);
    return data.map((message) => message.subject).reverse();
  }

  /** Returns when all that is due has happened: mail, events and deliveries. */
  settle(): Promise<void> {
    return this.call("POST", "/_sandbox/settle", {});
  }

  /** Moves the clock, and returns when what fell due has happened. */
  advance(duration: string): Promise<void> {
    return this.call("POST", "/_sandbox/clock", { advance: duration });
  }

  fault(fault: Record<string, unknown>): Promise<{ id: string }> {
    return this.call("POST", "/_sandbox/faults", fault);
  }

  async hits(fault: { id: string }): Promise<number> {
    return (await this.call<{ hits: unknown[] }>("GET", `/_sandbox/faults/${fault.id}`)).hits.length;
  }

  /** Subscribes to events, and returns the signing secret. */
  async webhook(url: string, events: string[]): Promise<string> {
    const webhook = await this.call<{ signingSecret: string }>("POST", "/api/v1/webhooks", { url, events });
    return webhook.signingSecret;
  }

  async deliveries(): Promise<Delivery[]> {
    await this.settle();
    return (await this.call<{ data: Delivery[] }>("GET", "/_sandbox/deliveries")).data;
  }
}
