import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";

import { getRequestListener } from "@hono/node-server";
import type { Hono } from "hono";
import { type Sandbox, startSandbox } from "svc-cli";
import { test as base } from "vitest";

import { createApp } from "../src/app.ts";
import { Mail } from "../src/mail.ts";

export type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Response>;

/** A test gets what it names: a sandbox, and a client of the application beside it. */
export const test = base.extend<{ sandbox: Sandbox; shop: Call }>({
  sandbox: async ({}, use) => {
    await using sandbox = await startSandbox();
    await use(sandbox);
  },
  // The application runs on a real port: webhooks reach it there.
  shop: async ({ sandbox }, use) => {
    let app: Hono | undefined;
    const server = createServer(getRequestListener((request) => app!.fetch(request)));
    await once(server.listen(0, "127.0.0.1"), "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const hook = await sandbox.webhook(["email.bounced", "email.complained"], { url: `${url}/hooks/email` });
    app = createApp(new Mail(sandbox.env.EMAIL_URL, sandbox.env.EMAIL_KEY, 1_000), hook.secret);
    await use((method, path, body, headers) =>
      fetch(new URL(path, url), {
        method,
        headers: { "content-type": "application/json", ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
      }),
    );
    server.closeAllConnections();
    server.close();
  },
});
