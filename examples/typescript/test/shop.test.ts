import { expect } from "vitest";

import { type Call, test } from "./fixtures.ts";

const ADA = "ada@example.test";

const signUp = (shop: Call, email = ADA) => shop("POST", "/signup", { name: "Ada", email });
const json = async (response: Promise<Response>) => (await response).json();
const status = async (response: Promise<Response>) => (await response).status;

test("a signup sends a welcome", async ({ shop, sandbox }) => {
  expect(await status(signUp(shop))).toBe(201);
  const mail = await sandbox.messages.wait({ to: ADA });
  expect(mail).toMatchObject({ subject: "Welcome, Ada", from: "Shop <hello@sandbox.test>" });
});

test("the welcome has text and HTML", async ({ shop, sandbox }) => {
  await signUp(shop);
  const mail = await sandbox.messages.wait({ to: ADA });
  expect(mail.text).toContain("Confirm your address: http");
  expect(mail.html).toContain("<p>Hello!</p>");
});

test("the link of the welcome confirms the address", async ({ shop, sandbox }) => {
  await signUp(shop);
  const mail = await sandbox.messages.wait({ to: ADA });
  expect(await json(shop("GET", mail.link("Confirm").href))).toEqual({ confirmed: ADA });
  expect(await json(shop("GET", `/accounts/${ADA}`))).toMatchObject({ confirmed: true });
});

test("the link has a token of its own", async ({ shop, sandbox }) => {
  await signUp(shop);
  await signUp(shop, "bob@example.test");
  const mails = await Promise.all([ADA, "bob@example.test"].map((to) => sandbox.messages.wait({ to })));
  const tokens = mails.map((mail) => mail.link("Confirm").searchParams.get("token"));
  expect(new Set(tokens).size).toBe(2);
});

test("a changed link confirms nothing", async ({ shop, sandbox }) => {
  await signUp(shop);
  const link = (await sandbox.messages.wait({ to: ADA })).link("Confirm");
  expect(await status(shop("GET", `${link}x`))).toBe(404);
  expect(await json(shop("GET", `/accounts/${ADA}`))).toMatchObject({ confirmed: false });
});

test("a second signup sends nothing", async ({ shop, sandbox }) => {
  await signUp(shop);
  expect(await status(signUp(shop))).toBe(409);
  expect(await sandbox.messages.subjects({ to: ADA })).toEqual(["Welcome, Ada"]);
});

test("an address that is none is refused", async ({ shop, sandbox }) => {
  expect(await status(signUp(shop, "ada at example.test"))).toBe(422);
  expect(await json(fetch(`${sandbox.url}/_sandbox/emails`))).toMatchObject({ data: [] });
});

test("a code signs in", async ({ shop, sandbox }) => {
  await signUp(shop);
  await shop("POST", "/code", { email: ADA });
  const { code } = await sandbox.messages.wait({ to: ADA, subject: /sign in/i });
  expect(await json(shop("POST", "/signin", { email: ADA, code }))).toEqual({ name: "Ada" });
});

test("a code works once", async ({ shop, sandbox }) => {
  await signUp(shop);
  await shop("POST", "/code", { email: ADA });
  const { code } = await sandbox.messages.wait({ to: ADA, subject: /sign in/i });
  const signIn = () => status(shop("POST", "/signin", { email: ADA, code }));
  expect([await signIn(), await signIn()]).toEqual([200, 401]);
});

test("a receipt has an attachment", async ({ shop, sandbox }) => {
  await signUp(shop);
  await shop("POST", "/orders", { email: ADA, total: "12.00 EUR" });
  const { attachments } = await sandbox.messages.wait({ to: ADA, subject: "receipt" });
  expect(attachments).toMatchObject([{ filename: "receipt.txt" }]);
  expect(await attachments[0]!.text()).toBe("Total: 12.00 EUR\n");
});

test("a reminder comes after 24 hours", async ({ shop, sandbox }) => {
  await signUp(shop);
  await sandbox.clock.advance("23h");
  expect(await sandbox.messages.subjects({ to: ADA })).toEqual(["Welcome, Ada"]);
  await sandbox.clock.advance("1h");
  expect(await sandbox.messages.subjects({ to: ADA })).toEqual(["Welcome, Ada", "Reminder: confirm your address"]);
});

test("no reminder after a confirmation", async ({ shop, sandbox }) => {
  await signUp(shop);
  await shop("GET", (await sandbox.messages.wait({ to: ADA })).link("Confirm").href);
  await sandbox.clock.advance("48h");
  expect(await sandbox.messages.subjects({ to: ADA })).toEqual(["Welcome, Ada"]);
});

test("a confirmation after the reminder is welcome", async ({ shop, sandbox }) => {
  await signUp(shop);
  await sandbox.clock.advance("24h");
  const reminder = await sandbox.messages.wait({ to: ADA, subject: "Reminder" });
  expect(await status(shop("GET", reminder.link().href))).toBe(200);
});

// The sandbox decides by the address: `bounced@` bounces, `complained@` complains.
test.for(["bounced@example.test", "complained@example.test"])(
  "nothing is sent to %s, whose mail came back",
  async (email, { shop, sandbox }) => {
    await signUp(shop, email);
    await sandbox.settle();
    expect(await json(shop("GET", `/accounts/${email}`))).toMatchObject({ deliverable: false });
    expect(await status(shop("POST", "/orders", { email, total: "1 EUR" }))).toBe(409);
  },
);

test("a webhook that is delivered again changes nothing", async ({ shop, sandbox }) => {
  await signUp(shop, "bounced@example.test");
  const deliveries = `${sandbox.url}/_sandbox/deliveries`;
  const newest = async () => {
    await sandbox.settle();
    return (await json(fetch(deliveries))).data[0];
  };
  await fetch(`${deliveries}/${(await newest()).id}/replay`, { method: "POST" });
  expect((await newest()).attempts).toMatchObject([{ status: 204 }, { status: 204 }]);
});

test("a forged webhook is refused", async ({ shop }) => {
  await signUp(shop);
  const forged = { event: "email.bounced", id: "1", data: { recipient: ADA } };
  for (const headers of [undefined, { "mail-signature": "0".repeat(64) }]) {
    expect(await status(shop("POST", "/hooks/email", forged, headers))).toBe(401);
  }
  expect(await json(shop("GET", `/accounts/${ADA}`))).toMatchObject({ deliverable: true });
});

test("a rate limit is waited for", async ({ shop, sandbox }) => {
  await using fault = await sandbox.fault("emails.send", { status: 429, retryAfter: 0, times: 2 });
  expect(await json(signUp(shop))).toMatchObject({ mail: "sent" });
  expect(await fault.hits()).toBe(2);
  expect(await sandbox.messages.subjects({ to: ADA })).toEqual(["Welcome, Ada"]);
});

test("a refused email can be tried again", async ({ shop, sandbox }) => {
  await sandbox.fault("emails.send", { status: 403 });
  expect([await status(signUp(shop)), await status(signUp(shop))]).toEqual([503, 201]);
});

test.for(["after", "midway"] as const)(
  "an email with an unknown outcome is not sent twice: the connection ends %s",
  async (drop, { shop, sandbox }) => {
    await sandbox.fault("emails.send", { drop });
    expect(await json(signUp(shop))).toMatchObject({ mail: "unknown" });
    expect(await sandbox.messages.subjects({ to: ADA })).toEqual(["Welcome, Ada"]);
  },
);

test("a slow service does not hold up a signup", async ({ shop, sandbox }) => {
  await sandbox.fault("emails.send", { latency: "60s" });
  expect(await json(signUp(shop))).toMatchObject({ mail: "unknown" });
});
