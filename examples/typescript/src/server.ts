import { serve } from "@hono/node-server";

import { createApp } from "./app.ts";
import { Mail } from "./mail.ts";

const { EMAIL_URL, EMAIL_KEY, WEBHOOK_SECRET } = process.env;
if (!EMAIL_URL || !EMAIL_KEY || !WEBHOOK_SECRET) throw new Error("EMAIL_URL, EMAIL_KEY and WEBHOOK_SECRET are required");
serve({ fetch: createApp(new Mail(EMAIL_URL, EMAIL_KEY), WEBHOOK_SECRET).fetch, port: 3000 });
