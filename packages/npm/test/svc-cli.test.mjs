// Against the program in SVC.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { startSandbox } from "svc-cli";

const launcher = fileURLToPath(new URL("../bin/svc.js", import.meta.url));
const to = "ada@example.test";

/** A sandbox that ends with the test, and what sends email to it. */
async function start(t) {
  const sandbox = await startSandbox();
  t.after(() => sandbox.stop());
  const { EMAIL_URL, EMAIL_KEY, EMAIL_FROM: from } = sandbox.env;
  const send = (email) =>
    fetch(`${EMAIL_URL}/api/v1/emails`, {
      method: "POST",
      headers: { authorization: `Bearer ${EMAIL_KEY}`, "content-type": "application/json" },
      body: JSON.stringify({ from, to, subject: "Hello", text: "Hello", ...email }),
    });
  return { sandbox, send };
}

const isGone = async (url) => {
  while (await fetch(url).then(() => true, () => false));
};

const anchor = (path, text) => `<a href="https://shop.test${path}">${text}</a>`;

test("a message has its links, its code and its attachments", async (t) => {
  const { sandbox, send } = await start(t);
  await send({
    subject: "Please sign in",
    text: undefined,
    html: `<p>${anchor("/help", "Help")} ${anchor("/in?t=1", "Confirm now")} Your code: 482913</p>`,
    attachments: [{ filename: "a.txt", content: Buffer.from("Grüße").toString("base64"), contentType: "text/plain" }],
  });
  await send();
  const mail = await sandbox.messages.wait({ to, subject: /^please sign in$/i });
  assert.equal(mail.link("confirm").searchParams.get("t"), "1");
  assert.equal(mail.link(/now$/).pathname, "/in");
  assert.equal(mail.link().pathname, "/help");
  assert.throws(() => mail.link("Delete"), /no link fits 'Delete' in 'Please sign in', which has 'Help' https:/);
  const bare = await sandbox.messages.wait({ to, subject: "hello" });
  assert.throws(() => bare.link("Confirm"), /no link fits 'Confirm' in 'Hello', which has no links/);
  assert.equal(mail.code, "482913");
  assert.equal(mail.attachments[0].filename, "a.txt");
  assert.equal(await mail.attachments[0].text(), "Grüße");
  assert.equal((await mail.attachments[0].bytes()).length, 7);
});

test("a message is checked against mail programs", async (t) => {
  const { sandbox, send } = await start(t);
  await send({ html: '<p style="border-radius: 4px">Hello</p>' });
  const mail = await sandbox.messages.wait({ to });
  assert.deepEqual(await sandbox.messages.check(mail), ["border-radius: not in Outlook (Windows, Windows Mail)"]);
  assert.deepEqual(await sandbox.messages.check(mail, { programs: ["Apple Mail"] }), []);
  await assert.rejects(sandbox.messages.check(mail, { programs: ["Elm"] }), /no data about "Elm"/);
});

test("a wait is for what arrives later, and tells what arrived instead", async (t) => {
  const { sandbox, send } = await start(t);
  const later = sandbox.messages.wait({ to, subject: /later/ });
  await send();
  await send({ subject: "much later" });
  assert.equal((await later).subject, "much later");
  await assert.rejects(sandbox.messages.wait({ to, subject: /other/, timeout: 0 }), (error) => {
    assert.match(error.message, /^no message fits \{ to: 'ada@example.test', subject: \/other\/, timeout: 0 \}/);
    assert.match(error.message, /the mailbox has "much later" to ada@example.test .*, "Hello" to/);
    // It points into this file, at the wait.
    assert.match(error.stack.split("\n").find((line) => /^ +at /.test(line)), /svc-cli\.test\.mjs/);
    assert.equal(error.cause, undefined);
    return true;
  });
});

test("a wait tells what no mailbox got", async (t) => {
  const { sandbox, send } = await start(t);
  await send({ from: "shop@other.test" });
  await send({ to: "bounced@example.test" });
  await send({ scheduledAt: new Date(Date.now() + 3_600_000).toISOString() });
  await sandbox.settle();
  await assert.rejects(sandbox.messages.wait({ to, timeout: 0 }), ({ message }) => {
    assert.match(message, /; refused: emails.send 403 domain_not_verified; not delivered: /);
    assert.match(message, /: 'Hello' to ada@example.test \(scheduled for .*\), 'Hello' to bounced@example.test \(bounced\)$/);
    return true;
  });
});

test("what JavaScript lets pass is refused, and a subject may be a regular expression", async (t) => {
  const { sandbox, send } = await start(t);
  await send();
  await send({ subject: "Other" });
  assert.deepEqual(await sandbox.messages.subjects({ to, subject: /^hel/i }), ["Hello"]);
  assert.deepEqual(await sandbox.messages.subjects({ subject: "OTHER" }), ["Other"]);
  const forgotten = /^TypeError: to is undefined: give it a value/;
  await assert.rejects(sandbox.messages.wait({ to: undefined }), forgotten);
  await assert.rejects(sandbox.messages.subjects({ to: undefined }), forgotten);
  for (const wanted of [undefined, {}, { subject: "Hello" }, { to: "" }]) {
    await assert.rejects(sandbox.messages.wait(wanted), /^TypeError: wait needs the recipient/);
  }
  for (const by of [undefined, 24, { weeks: 1 }]) {
    await assert.rejects(sandbox.clock.advance(by), /^TypeError: advance needs a duration, such as "24h"/);
  }
  await assert.rejects(sandbox.clock.advance({ hours: -1 }), /^RangeError: the clock never goes back/);
  await assert.rejects(sandbox.webhook("email.bounced"), /^TypeError: webhook needs a list of events/);
  await assert.rejects(sandbox.fault("emails.send"), /^TypeError: fault\('emails.send'\) needs what is to happen/);
});

test("after its end, a sandbox says so", async (t) => {
  const { sandbox } = await start(t);
  await sandbox.stop();
  await assert.rejects(sandbox.messages.wait({ to }), /: the sandbox has ended \(it was stopped\)$/);
});

test("a list has more than one page, the oldest first", async (t) => {
  const { sandbox, send } = await start(t);
  for (let n = 0; n < 102; n += 1) await send({ subject: `${n}` });
  const subjects = await sandbox.messages.subjects({ to });
  assert.deepEqual(subjects, Array.from({ length: 102 }, (_, n) => `${n}`));
});

test("a hook verifies, and keeps what is not asked for yet", async (t) => {
  const { sandbox, send } = await start(t);
  const hook = await sandbox.webhook(["email.sent", "email.bounced", "email.opened"]);
  await send({ to: "bounced@example.test" });
  const { data, ...bounced } = await hook.next("email.bounced");
  assert.equal(bounced.event, "email.bounced");
  assert.equal(data.recipient, "bounced@example.test");
  assert.equal((await hook.next()).event, "email.sent");

  for (const signature of [{}, { "mail-signature": "0".repeat(64) }, { "mail-signature": "" }]) {
    const forged = await fetch(hook.url, { method: "POST", headers: signature, body: '{"event":"email.opened"}' });
    assert.equal(forged.status, 401);
  }
  const extraction = await sandbox.webhook(["extraction.completed"]);
  await fetch(`${sandbox.url}/_sandbox/extractions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ event: "extraction.completed", data: { total: 12 } }),
  });
  assert.deepEqual((await extraction.next("extraction.completed")).data, { total: 12 });

  await assert.rejects(hook.next("email.opened", { timeout: 0 }), (error) => {
    assert.match(error.message, /^no email.opened arrived .*; since the start came email.sent for bounced@example.test/);
    assert.match(error.message, /, email.bounced for bounced@example.test \(returned already\), a request whose signature/);
    return true;
  });
  await assert.rejects(hook.next("email.failed"), /does not get email.failed: .* to email.sent, email.bounced, email.opened$/);
  const idle = await sandbox.webhook(["email.failed"]);
  await assert.rejects(idle.next(undefined, { timeout: 0 }), /^Error: no delivery arrived within 0ms; nothing came$/);
});

test("a fault affects requests until it is removed", async (t) => {
  const { sandbox, send } = await start(t);
  const fault = await sandbox.fault("emails.send", { status: 429, retryAfter: 7, times: 9 });
  const response = await send();
  assert.deepEqual([response.status, response.headers.get("retry-after")], [429, "7"]);
  assert.equal(await fault.hits(), 1);
  await fault[Symbol.asyncDispose]();
  assert.equal((await send()).status, 202);
});

test("the clock brings what is due", async (t) => {
  const { sandbox, send } = await start(t);
  await send({ scheduledAt: new Date(Date.now() + 24 * 3_600_000).toISOString() });
  assert.deepEqual(await sandbox.messages.subjects({ to }), []);
  await sandbox.clock.advance("25h");
  assert.deepEqual(await sandbox.messages.subjects({ to }), ["Hello"]);
  const before = await sandbox.clock.now();
  await sandbox.clock.advance({ days: 1, hours: 1 });
  const passed = (await sandbox.clock.now()) - before;
  assert.ok(passed >= 25 * 3_600_000 && passed < 26 * 3_600_000, `${passed} ms`);
});

test("what is due next is told, and what arrived is deleted", async (t) => {
  const { sandbox, send } = await start(t);
  assert.deepEqual(await sandbox.due(), []);
  await send({ subject: "Reminder", scheduledAt: "2999-01-01T00:00:00Z" });
  const [{ at, kind, subject, description }, ...others] = await sandbox.due();
  assert.deepEqual([at, kind, others], [new Date("2999-01-01T00:00:00Z"), "email", []]);
  assert.match(subject, /^eml_/);
  assert.equal(description, '"Reminder" to ada@example.test is sent, as scheduled');

  for (const name of ["One", "Two", "Three"]) await send({ subject: name });
  await send({ to: "bob@example.test" });
  assert.deepEqual((await sandbox.messages.all({ to, subject: /^T/ })).map((mail) => mail.text), ["Hello", "Hello"]);
  await sandbox.messages.delete({ to, subject: /^T/ });
  assert.deepEqual(await sandbox.messages.subjects(), ["One", "Hello"]);
  await sandbox.messages.delete();
  assert.deepEqual(await sandbox.messages.subjects(), []);
});

test("the settings of the machine's own sandbox have no effect, and problems are told", async (t) => {
  const { SVC } = process.env;
  t.after(() => Object.assign(process.env, { SVC }));
  process.env.SVC_SANDBOX_EMAIL_KEY = "mk_test_another";
  const { send } = await start(t);
  delete process.env.SVC_SANDBOX_EMAIL_KEY;
  assert.equal((await send()).status, 202);

  process.env.SVC_SANDBOX_SEED = "no-such.toml";
  await assert.rejects(startSandbox(), /the sandbox did not start: [^{]*no-such.toml[^}]*$/);
  delete process.env.SVC_SANDBOX_SEED;
  process.env.SVC = "/no/such/svc";
  await assert.rejects(startSandbox(), /the sandbox did not start: spawn .* set SVC to the path/);
  process.env.SVC = "false";
  await assert.rejects(startSandbox(), /the sandbox did not start: false exited with 1$/);
  process.env.SVC = "echo";
  await assert.rejects(startSandbox(), /the sandbox did not start: echo is not svc/);
  process.env.SVC = "";
  await assert.rejects(startSandbox(), /the package svc-cli-.* is not installed: .* set SVC to the path/);
  const { arch } = process;
  t.after(() => Object.defineProperty(process, "arch", { value: arch }));
  Object.defineProperty(process, "arch", { value: "mips" });
  await assert.rejects(startSandbox(), /there is no package for .*-mips: set SVC/);
});

test("the environment is that of `svc sandbox exec`", async (t) => {
  const { sandbox } = await start(t);
  const command = ["sandbox", "exec", "--", process.execPath, "-p", "JSON.stringify(process.env)"];
  const variables = Object.entries(JSON.parse(spawnSync(launcher, command).stdout)).filter(([name]) => !(name in process.env));
  // `svc` tells one run from the next by this one.
  const own = variables.findIndex(([name]) => name === "SVC_SANDBOX_RUN");
  variables.splice(own, 1);
  assert.ok(variables.length > 10);
  for (const [name, value] of variables) {
    const withoutPort = (text) => text?.replace(/^(.+:)?\d{3,}$/, "$1PORT");
    assert.equal(withoutPort(sandbox.env[name]), withoutPort(value), name);
  }
});

test("a sandbox ends with its process, even if that is killed", async () => {
  const script = 'import("svc-cli").then(({ startSandbox }) => startSandbox()).then((sb) => console.log(sb.url))';
  // The first process keeps itself running, the second one ends with its script.
  for (const ending of ["; setInterval(() => {}, 1000)", ""]) {
    const child = spawn(process.execPath, ["-e", script + ending], { cwd: import.meta.dirname, stdio: ["ignore", "pipe", "inherit"] });
    const [url] = await once(createInterface(child.stdout), "line");
    if (ending) child.kill("SIGKILL");
    else assert.deepEqual(await once(child, "exit"), [0, null]);
    await isGone(url);
  }
});

test("the launcher passes arguments, streams, exit codes and signals", async () => {
  const { stdout, stderr, status } = spawnSync(launcher, ["--json", "verify", "--no-such-option"], { encoding: "utf8" });
  assert.deepEqual([stdout, status], ["", 2]);
  assert.match(stderr, /no-such-option/);

  const run = (...command) => spawn(launcher, ["--quiet", "sandbox", "exec", "--", "sh", "-c", ...command]);
  const piped = run('read -r line && echo "got $line" && exit 7');
  piped.stdin.end("a line\n");
  const [text, [code]] = await Promise.all([once(piped.stdout, "data"), once(piped, "exit")]);
  assert.deepEqual([String(text), code], ["got a line\n", 7]);

  const waiting = run('trap "exit 9" TERM; echo ready; while :; do sleep 0.01; done');
  await once(waiting.stdout, "data");
  waiting.kill("SIGTERM");
  assert.deepEqual(await once(waiting, "exit"), [9, null]);

  // As npm starts it: below a shell, which does not pass signals on.
  const serve = '"$0" --quiet sandbox serve --addr 127.0.0.1:0 --in-memory; exit';
  const shell = spawn("sh", ["-c", serve, launcher], { env: { ...process.env, npm_command: "exec" } });
  const [line] = await once(createInterface(shell.stdout), "line");
  shell.kill("SIGTERM");
  await isGone(JSON.parse(line).http);

  const { status: none, stderr: problem } = spawnSync(launcher, { encoding: "utf8", env: { ...process.env, SVC: "" } });
  assert.equal(none, 1);
  assert.match(problem, /^svc: the package svc-cli-.* is not installed/);
});
