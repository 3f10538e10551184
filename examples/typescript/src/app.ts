// A shop: people sign up, confirm their address, sign in with a code and get receipts.

import { randomBytes, randomInt } from "node:crypto";

import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";

import { isGenuine, type Mail, MailRefused, MailUnknown } from "./mail.ts";

const SENDER = "Shop <hello@sandbox.test>";

interface Account {
  name: string;
  token: string;
  code?: string;
  reminder?: string;
  confirmed: boolean;
  deliverable: boolean;
  mail: "sent" | "unknown";
}

interface Delivery {
  event: string;
  id: string;
  data: { recipient?: string };
}

export function createApp(mail: Mail, webhookSecret: string): Hono {
  const app = new Hono();
  // They stand for tables of a database.
  const accounts = new Map<string, Account>();
  const handled = new Set<string>();

  const accountOf = (email: string): Account => {
    const account = accounts.get(email);
    if (!account) throw new HTTPException(404, { message: "no such account" });
    return account;
  };

  app.post("/signup", async (c) => {
    const { name, email } = await c.req.json<{ name: string; email: string }>();
    if (!/^\S+@\S+$/.test(email)) return c.json({ email: "is not an address" }, 422);
    if (accounts.has(email)) return c.json({ email: "has an account" }, 409);
    const token = randomBytes(24).toString("base64url");
    const account: Account = { name, token, confirmed: false, deliverable: true, mail: "sent" };
    // Before the email is sent: a webhook about it may come at once.
    accounts.set(email, account);
    const link = new URL(`/confirm?token=${token}`, c.req.url).href;
    try {
      await mail.send({
        from: SENDER,
        to: email,
        subject: `Welcome, ${name}`,
        text: `Confirm your address: ${link}`,
        html: `<p>Hello!</p><p><a href="${link}">Confirm your address</a></p>`,
      });
      account.reminder = await mail.send({
        from: SENDER,
        to: email,
        subject: "Reminder: confirm your address",
        text: `Confirm your address: ${link}`,
        scheduledAt: new Date(Date.now() + 24 * 3_600_000).toISOString(),
      });
    } catch (error) {
      if (error instanceof MailRefused) {
        accounts.delete(email);
        return c.text("please try again later", 503);
      }
      if (!(error instanceof MailUnknown)) throw error;
      account.mail = "unknown";
    }
    return c.json({ email, mail: account.mail }, 201);
  });

  app.get("/confirm", async (c) => {
    const token = c.req.query("token");
    for (const [email, account] of accounts) {
      if (account.token !== token) continue;
      account.confirmed = true;
      if (account.reminder) await mail.cancel(account.reminder);
      delete account.reminder;
      return c.json({ confirmed: email });
    }
    return c.text("this link is not valid", 404);
  });

  app.post("/code", async (c) => {
    const { email } = await c.req.json<{ email: string }>();
    const code = String(randomInt(100_000, 1_000_000));
    accountOf(email).code = code;
    await mail.send({ from: SENDER, to: email, subject: "Sign in", text: `Your code: ${code}` });
    return c.body(null, 202);
  });

  app.post("/signin", async (c) => {
    const { email, code } = await c.req.json<{ email: string; code: string }>();
    const account = accountOf(email);
    if (!account.code || account.code !== code) return c.text("this code is not valid", 401);
    delete account.code;
    return c.json({ name: account.name });
  });

  app.post("/orders", async (c) => {
    const { email, total } = await c.req.json<{ email: string; total: string }>();
    if (!accountOf(email).deliverable) return c.text("we cannot write to this address", 409);
    const content = Buffer.from(`Total: ${total}\n`).toString("base64");
    const id = await mail.send({
      from: SENDER,
      to: email,
      subject: "Your receipt",
      text: "Thank you!",
      attachments: [{ filename: "receipt.txt", content, contentType: "text/plain" }],
      tags: { kind: "receipt" },
    });
    return c.json({ id }, 201);
  });

  app.get("/accounts/:email", (c) => {
    const { confirmed, deliverable, mail } = accountOf(c.req.param("email"));
    return c.json({ confirmed, deliverable, mail });
  });

  app.post("/hooks/email", async (c) => {
    const body = Buffer.from(await c.req.arrayBuffer());
    if (!isGenuine(webhookSecret, c.req.header("mail-signature") ?? "", body)) return c.body(null, 401);
    const delivery = JSON.parse(body.toString()) as Delivery;
    if (handled.has(delivery.id)) return c.body(null, 204);
    handled.add(delivery.id);
    const account = accounts.get(delivery.data.recipient ?? "");
    if (account && ["email.bounced", "email.complained"].includes(delivery.event)) account.deliverable = false;
    return c.body(null, 204);
  });

  return app;
}
