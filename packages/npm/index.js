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

exports.startSandbox = fromCaller(async () => {
  const options = ["--addr", "127.0.0.1:0", "--smtp", "127.0.0.1:0", "--in-memory", "--until-stdin-closes"];
  // Of the variables of `serve`, only those that a whole test run may be started with.
  const isKept = ([name]) => !/^SVC_SANDBOX_(?!SEED$|SET$)/.test(name);
  const binary = findBinary();
  const child = spawn(binary, ["--quiet", "sandbox", "serve", ...options], {
    env: Object.fromEntries(Object.entries(process.env).filter(isKept)),
  });
  let log = "";
  child.stderr.setEncoding("utf8").on("data", (text) => (log += text));
  const ended = once(child, "close");
  const [ready, signal] = await Promise.race([once(createInterface(child.stdout), "line"), ended]).catch((cause) => {
    throw new Error(`the sandbox did not start: ${cause.message}; set SVC to the path of svc`, { cause });
  });
  if (typeof ready !== "string") {
    const problem = problemOf(log.trim()) || `${binary} exited with ${signal ?? ready}`;
    throw new Error(`the sandbox did not start: ${problem}`);
  }
  if (!ready.startsWith("{")) throw new Error(`the sandbox did not start: ${binary} is not svc, it printed ${ready}`);
  child.stderr.removeAllListeners("data").on("data", (text) => process.stderr.write(text));
  // A sandbox that is not stopped does not keep the process running, and ends with it.
  [child, child.stdin, child.stdout, child.stderr].forEach((handle) => handle.unref());
  return new Sandbox(child, ended, JSON.parse(ready));
});

class Sandbox {
  #child;
  #ended;
  #isStopped = false;
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
      wait: fromCaller((wanted) => this.#wait(wanted)),
      all: fromCaller(async (wanted) => {
        const found = (await this.#arrived(wanted)).map(({ id }) => this.#call("GET", `/_sandbox/messages/${id}`));
        return (await Promise.all(found)).map((message) => this.#mail(message));
      }),
      subjects: fromCaller(async (wanted) => (await this.#arrived(wanted)).map(({ subject }) => subject)),
      check: fromCaller(async ({ id }, { programs = ["Apple Mail", "Gmail", "Outlook"] } = {}) => {
        const query = parameters({ programs: programs.join(",") });
        const { features } = await this.#call("GET", `/_sandbox/messages/${id}/html-check?${query}`);
        const lacking = features.filter(({ none }) => none.length > 0);
        return lacking.map(({ title, none }) => `${title}: not in ${none.join(", ")}`);
      }),
      delete: fromCaller(async (wanted) => {
        for (const { id } of await this.#arrived(wanted)) await this.#call("DELETE", `/_sandbox/messages/${id}`);
      }),
    };
    this.clock = {
      now: fromCaller(async () => new Date((await this.#call("GET", "/_sandbox/clock")).now)),
      advance: fromCaller(async (by) => void (await this.#call("POST", "/_sandbox/clock", { advance: duration(by) }))),
    };
  }

  due = fromCaller(async () => {
    const { data } = await this.#call("GET", "/_sandbox/due?limit=100");
    return data.map((due) => ({ ...due, at: new Date(due.at) }));
  });

  settle = fromCaller(async () => void (await this.#call("POST", "/_sandbox/settle", {})));

  fault = fromCaller(async (operation, options) => {
    if (!options) throw new TypeError(`fault(${inspect(operation)}) needs what is to happen, such as { status: 429 }`);
    let { retryAfter, headers, ...fault } = options;
    if (retryAfter !== undefined) headers = { ...headers, "retry-after": String(retryAfter) };
    const { id } = await this.#call("POST", "/_sandbox/faults", { operation, headers, ...fault });
    const path = `/_sandbox/faults/${id}`;
    const remove = async () => void (await this.#call("DELETE", path));
    const hits = async () => (await this.#call("GET", path)).hits.length;
    return { hits, remove, [Symbol.asyncDispose]: remove };
  });

  smtpFault = fromCaller((step, { text, sender, ...options }) =>
    this.fault(undefined, { smtp: step, body: text, from: sender, ...options }));

  webhook = fromCaller(async (events, { url } = {}) => {
    if (!Array.isArray(events)) throw new TypeError('webhook needs a list of events, such as ["email.bounced"]');
    const isExtraction = events.some((event) => event.startsWith("extraction."));
    const [path, key] = isExtraction ? ["/v1/webhooks", EXTRACTION_KEY] : ["/api/v1/webhooks", EMAIL_KEY];
    const subscribe = async (url) => {
      const webhook = await this.#call("POST", path, { url, events }, key);
      return webhook.signingSecret ?? webhook.secret;
    };
    if (url !== undefined) return { url, secret: await subscribe(String(url)) };
    const receiver = new Receiver(events);
    this.#receivers.push(receiver);
    return receiver.start(subscribe);
  });

  async stop() {
    this.#isStopped = true;
    this.#receivers.forEach((receiver) => receiver.stop());
    const { stdin, stdout, stderr } = this.#child;
    [this.#child, stdout, stderr].forEach((handle) => handle.ref());
    stdin.destroy();
    await this.#ended;
  }

  [Symbol.asyncDispose]() {
    return this.stop();
  }

  async #wait(wanted = {}) {
    const { query, subject, timeout } = parts(wanted);
    if (!query.to) throw new TypeError('wait needs the recipient, such as { to: "ada@example.test" }');
    const end = Date.now() + timeout;
    for (let after; ; ) {
      const found = await this.#list({ ...query, after });
      const message = found.find((message) => fits(message.subject, subject));
      if (message) return this.#mail(await this.#call("GET", `/_sandbox/messages/${message.id}`));
      after = found[0]?.id ?? after;
      const left = `${Math.max(end - Date.now(), 0)}ms`;
      const next = `/_sandbox/messages/wait?${parameters({ ...query, after, timeout: left })}`;
      await this.#call("GET", next).catch(async ({ message }) => {
        throw new Error(`no message fits ${inspect(wanted)}: ${message}${await this.#missing().catch(() => "")}`);
      });
    }
  }

  /** The newest of what the application sent and no mailbox got. */
  async #missing() {
    const lists = ["requests", "emails"].map((list) => this.#call("GET", `/_sandbox/${list}`));
    const [requests, emails] = await Promise.all(lists);
    const refused = requests.data
      .filter(({ method, status }) => method === "POST" && status >= 400)
      .map(({ operation, status, responseBody }) => {
        const [, code = ""] = /"code":"(\w+)"/.exec(responseBody?.text) ?? [];
        return `${operation} ${status} ${code}`.trim();
      });
    const undelivered = emails.data
      .filter(({ status }) => /^(queued|bounced|failed|cancel)/.test(status))
      .map(({ subject, to, status, scheduledAt }) => {
        const what = status === "queued" && scheduledAt ? `scheduled for ${scheduledAt}` : status;
        return `${inspect(subject)} to ${to.join(", ")} (${what})`;
      });
    return Object.entries({ refused, "not delivered": undelivered })
      .map(([what, list]) => (list.length ? `; ${what}: ${[...new Set(list)].slice(0, 3).join(", ")}` : ""))
      .join("");
  }

  /** What fits, once all that is due has happened, the oldest first. */
  async #arrived(wanted) {
    const { query, subject } = parts(wanted);
    await this.settle();
    return (await this.#list(query)).filter((message) => fits(message.subject, subject)).reverse();
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
      const fetchIt = () => this.#fetch(`/_sandbox/messages/${message.id}/attachments/${index + 1}`);
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
      const has = links.join(", ") || "no links";
      throw new Error(`no link fits ${inspect(text)} in ${inspect(message.subject)}, which has ${has}`);
    };
    return { ...message, attachments, code: message.codes[0], link };
  }

  async #call(method, path, body, key = EMAIL_KEY) {
    const response = await this.#fetch(path, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    if (response.ok) return text && JSON.parse(text);
    throw new Error(JSON.parse(text).error.message);
  }

  #fetch(path, options) {
    return fetch(this.url + path, options).catch(({ cause, message }) => {
      const { exitCode, signalCode } = this.#child;
      if (this.#isStopped) throw new Error("the sandbox has ended (it was stopped)");
      const how = signalCode ?? exitCode;
      if (how !== null) throw new Error(`the sandbox has ended (${how})`);
      throw new Error(`the sandbox does not answer (${cause?.message ?? message})`);
    });
  }
}

/** Receives the deliveries of one webhook, and keeps those that the service signed. */
class Receiver {
  #events;
  #arrived = [];
  #arrivals = new EventEmitter();
  #secret;
  #server = createServer((request, response) => {
    this.#receive(request, response).catch(() => response.destroy());
  });

  constructor(events) {
    this.#events = events;
  }

  async start(subscribe) {
    await once(this.#server.listen(0, "127.0.0.1"), "listening");
    this.#server.unref();
    const url = `http://127.0.0.1:${this.#server.address().port}/`;
    this.#secret = subscribe(url);
    return { url, secret: await this.#secret, next: fromCaller((event, options) => this.#next(event, options)) };
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
      this.#arrived.push({ delivery: JSON.parse(body.toString()), isReturned: false });
      response.writeHead(204).end();
    } else {
      this.#arrived.push({});
      response.writeHead(401).end();
    }
    this.#arrivals.emit("arrival");
  }

  async #next(event, { timeout = TIMEOUT } = {}) {
    if (event !== undefined && !this.#events.includes(event)) {
      throw new Error(`this hook does not get ${event}: it has subscribed to ${this.#events.join(", ")}`);
    }
    const isNext = ({ delivery, isReturned }) =>
      delivery && !isReturned && (event === undefined || delivery.event === event);
    const expiry = new AbortController();
    const timer = setTimeout(() => expiry.abort(), timeout);
    try {
      for (;;) {
        const arrived = this.#arrived.find(isNext);
        if (arrived) {
          arrived.isReturned = true;
          return arrived.delivery;
        }
        await once(this.#arrivals, "arrival", { signal: expiry.signal });
      }
    } catch {
      const all = this.#arrived.map(({ delivery, isReturned }) => {
        if (!delivery) return "a request whose signature does not match";
        const { event, data } = delivery;
        return `${event}${data.recipient ? ` for ${data.recipient}` : ""}${isReturned ? " (returned already)" : ""}`;
      });
      const came = all.length ? `since the start came ${all.join(", ")}` : "nothing came";
      throw new Error(`no ${event ?? "delivery"} arrived within ${timeout}ms; ${came}`);
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The errors of a function begin where it is called: in the test. */
function fromCaller(run) {
  return function called(...given) {
    const here = {};
    Error.captureStackTrace(here, called);
    return run(...given).catch((error) => {
      error.stack = `${error.name}: ${error.message}${here.stack.slice(here.stack.indexOf("\n"))}`;
      throw error;
    });
  };
}

/** A filter that is undefined by mistake would let every message pass. */
function parts(wanted = {}) {
  for (const [name, value] of Object.entries(wanted)) {
    if (value === undefined) throw new TypeError(`${name} is undefined: give it a value or leave it out`);
  }
  const { subject = "", timeout = TIMEOUT, ...query } = wanted;
  return { query, subject, timeout };
}

/** As the sandbox has it: of "24h", and of { hours: 24 }. */
function duration(by) {
  if (typeof by === "string") return by;
  const { days = 0, hours = 0, minutes = 0, seconds = 0, ...others } = Object(by);
  if (Object(by) !== by || Object.keys(others).length > 0) throw new TypeError(`advance needs a duration, such as "24h" or { hours: 24 }, not ${inspect(by)}`);
  const milliseconds = Math.round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000);
  if (milliseconds < 0) throw new RangeError(`the clock never goes back: cannot advance it by ${inspect(by)}`);
  return `${milliseconds}ms`;
}

/** What the last line of a log says, if it is an error of svc; else the log. */
function problemOf(log) {
  try {
    return JSON.parse(log.split("\n").at(-1)).error.message;
  } catch {
    return log;
  }
}

/** Whether a text contains a string, in any case, or matches a regular expression. */
const fits = (text, wanted) =>
  typeof wanted === "string" ? text.toLowerCase().includes(wanted.toLowerCase()) : text.search(wanted) >= 0;

const parameters = (query) =>
  new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined)).toString();

/** Whether the service signed a body: the bytes as they arrived. */
function isGenuine(secret, headers, body) {
  const expected = Buffer.from(`sha256=${createHmac("sha256", secret).update(body).digest("hex")}`);
  const given = Buffer.from(headers["x-service-signature"] ?? `sha256=${headers["mail-signature"]}`);
  return expected.length === given.length && timingSafeEqual(expected, given);
}
