"use strict";
// CommonJS, because `import` and `require` both load it: jest needs no flag for it.

const { spawn } = require("node:child_process");
const { createHmac, timingSafeEqual } = require("node:crypto");
const { EventEmitter, once } = require("node:events");
const { createServer } = require("node:http");
const { createInterface } = require("node:readline");
// Not the global one, which tests may replace.
const { clearTimeout, setTimeout } = require("node:timers");
const { inspect } = require("node:util");

const { findBinary } = require("./binary.js");

// In milliseconds; less than the 5 s that vitest and jest give a test, so that its error is seen.
const TIMEOUT = 4_000;
const EMAIL_KEY = "mk_test_sandbox";
const EXTRACTION_KEY = "sk_test_sandbox";

exports.startSandbox = async () => {
  const options = ["--addr", "127.0.0.1:0", "--smtp", "127.0.0.1:0", "--in-memory", "--until-stdin-closes"];
  // Of the variables of `serve`, only those that a whole test run may be started with.
  const isKept = ([name]) => !/^SVC_SANDBOX_(?!SEED$|SET$)/.test(name);
  const child = spawn(findBinary(), ["--quiet", "sandbox", "serve", ...options], {
    env: Object.fromEntries(Object.entries(process.env).filter(isKept)),
  });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (log += text));
  const ended = once(child, "close");
  const [ready] = await Promise.race([once(createInterface(child.stdout), "line"), ended]).catch((cause) => {
    throw new Error(`the sandbox did not start: ${cause.message}; set SVC to the path of svc`, { cause });
  });
  if (typeof ready !== "string") throw new Error(`the sandbox did not start: ${log.trim()}`);
  child.stderr.removeAllListeners("data").on("data", (text) => process.stderr.write(text));
  // A sandbox that is not stopped does not keep the process running, and ends with it.
  [child, child.stdin, child.stdout, child.stderr].forEach((handle) => handle.unref());
  return new Sandbox(child, ended, JSON.parse(ready));
};

class Sandbox {
  #child;
  #ended;
  #receivers = [];

  constructor(child, ended, { http, smtp }) {
    this.#child = child;
    this.#ended = ended;
    this.url = http;
    const smtpAddress = new URL(`smtp://${smtp}`);
    this.env = {
      SANDBOX_URL: http,
      EMAIL_URL: http,
      EMAIL_KEY,
      EMAIL_FROM: "hello@sandbox.test",
      EXTRACTION_URL: http,
      EXTRACTION_KEY,
      SMTP_HOST: smtpAddress.hostname,
      SMTP_PORT: smtpAddress.port,
      SVC_EMAIL_URL: http,
      SVC_EMAIL_KEY: EMAIL_KEY,
      SVC_EXTRACTION_URL: http,
      SVC_EXTRACTION_KEY: EXTRACTION_KEY,
      SVC_SANDBOX: "1",
      SVC_SANDBOX_URL: http,
    };
    this.messages = {
      wait: (query) => this.#wait(query),
      subjects: async (query) => {
        await this.settle();
        return (await this.#list(query)).map(({ subject }) => subject).reverse();
      },
    };
    this.clock = {
      advance: async (duration) => void (await this.#call("POST", "/_sandbox/clock", { advance: duration })),
    };
  }

  async settle() {
    await this.#call("POST", "/_sandbox/settle", {});
  }

  async fault(operation, { retryAfter, headers, ...fault }) {
    if (retryAfter !== undefined) headers = { ...headers, "retry-after": String(retryAfter) };
    const { id } = await this.#call("POST", "/_sandbox/faults", { operation, headers, ...fault });
    const path = `/_sandbox/faults/${id}`;
    const remove = async () => void (await this.#call("DELETE", path));
    const hits = async () => (await this.#call("GET", path)).hits.length;
    return { hits, remove, [Symbol.asyncDispose]: remove };
  }

  async webhook(events, { url } = {}) {
    const isExtraction = events.some((event) => event.startsWith("extraction."));
    const [path, key] = isExtraction ? ["/v1/webhooks", EXTRACTION_KEY] : ["/api/v1/webhooks", EMAIL_KEY];
    const subscribe = async (url) => {
      const webhook = await this.#call("POST", path, { url, events }, key);
      return webhook.signingSecret ?? webhook.secret;
    };
    if (url !== undefined) return { url, secret: await subscribe(String(url)) };
    const receiver = new Receiver();
    this.#receivers.push(receiver);
    return receiver.start(subscribe);
  }

  async stop() {
    this.#receivers.forEach((receiver) => receiver.stop());
    this.#child.ref();
    this.#child.stdin.destroy();
    await this.#ended;
  }

  [Symbol.asyncDispose]() {
    return this.stop();
  }

  async #wait(wanted = {}) {
    const { timeout = TIMEOUT, subject = "", ...query } = wanted;
    const end = Date.now() + timeout;
    for (let after; ; ) {
      const found = await this.#list({ ...query, after });
      const message = found.find((message) => fits(message.subject, subject));
      if (message) return this.#mail(await this.#call("GET", `/_sandbox/messages/${message.id}`));
      after = found[0]?.id ?? after;
      const left = `${Math.max(end - Date.now(), 0)}ms`;
      const next = `/_sandbox/messages/wait?${parameters({ ...query, after, timeout: left })}`;
      await this.#call("GET", next).catch((error) => {
        throw new Error(`no message fits ${inspect(wanted)}: ${error.message}`, { cause: error });
      });
    }
  }

  /** All that fit, the newest first. */
  async #list(query) {
    const found = [];
    let cursor;
    do {
      const page = await this.#call("GET", `/_sandbox/messages?${parameters({ ...query, cursor, limit: 100 })}`);
      found.push(...page.data);
      cursor = page.next;
    } while (cursor);
    return found;
  }

  #mail(message) {
    const attachments = message.attachments.map((attachment, index) => {
      const fetchIt = () => fetch(`${this.url}/_sandbox/messages/${message.id}/attachments/${index + 1}`);
      return {
        ...attachment,
        bytes: async () => new Uint8Array(await (await fetchIt()).arrayBuffer()),
        text: async () => (await fetchIt()).text(),
      };
    });
    const link = (text = "") => {
      const link = message.links.find((link) => fits(link.text ?? link.url, text));
      if (link) return new URL(link.url);
      const links = message.links.map(({ text, url }) => (text ? `${inspect(text)} ${url}` : url));
      throw new Error(`no link fits ${inspect(text)} in ${inspect(message.subject)}, which has ${these(links)}`);
    };
    return { ...message, attachments, code: message.codes[0], link };
  }

  async #call(method, path, body, key = EMAIL_KEY) {
    const response = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (response.ok) return text && JSON.parse(text);
    throw new Error(JSON.parse(text).error.message);
  }
}

/** Receives the deliveries of one webhook, and keeps those that the service signed. */
class Receiver {
  #deliveries = [];
  #arrived = [];
  #arrivals = new EventEmitter();
  #secret;
  #server = createServer((request, response) => {
    this.#receive(request, response).catch(() => response.destroy());
  });

  async start(subscribe) {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    this.#server.unref();
    const url = `http://127.0.0.1:${this.#server.address().port}/`;
    this.#secret = subscribe(url);
    return { url, secret: await this.#secret, next: (event, options) => this.#next(event, options) };
  }

  stop() {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #receive(request, response) {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    if (isGenuine(await this.#secret, request.headers, body)) {
      const delivery = JSON.parse(body.toString());
      this.#deliveries.push(delivery);
      this.#arrived.push(delivery.event);
      response.writeHead(204).end();
    } else {
      this.#arrived.push("a request whose signature does not match");
      response.writeHead(401).end();
    }
    this.#arrivals.emit("arrival");
  }

  async #next(event, { timeout = TIMEOUT } = {}) {
    const expiry = new AbortController();
    const timer = setTimeout(() => expiry.abort(), timeout);
    try {
      for (;;) {
        const index = this.#deliveries.findIndex((delivery) => event === undefined || delivery.event === event);
        if (index >= 0) return this.#deliveries.splice(index, 1)[0];
        await once(this.#arrivals, "arrival", { signal: expiry.signal });
      }
    } catch (cause) {
      const what = event ?? "delivery";
      throw new Error(`no ${what} arrived within ${timeout}ms; since the start came ${these(this.#arrived)}`, { cause });
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Whether a text contains a string, in any case, or matches a regular expression. */
const fits = (text, wanted) =>
  typeof wanted === "string" ? text.toLowerCase().includes(wanted.toLowerCase()) : text.search(wanted) >= 0;

const these = (list) => list.join(", ") || "nothing";

const parameters = (query) =>
  new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined)).toString();

/** Whether the service signed a body: the bytes as they arrived. */
function isGenuine(secret, headers, body) {
  const expected = Buffer.from(`sha256=${createHmac("sha256", secret).update(body).digest("hex")}`);
  const given = Buffer.from(headers["x-service-signature"] ?? `sha256=${headers["mail-signature"]}`);
  return expected.length === given.length && timingSafeEqual(expected, given);
}
