// What TypeScript accepts and refuses. It is not run.

import { startSandbox } from "svc-cli";

await using sandbox = await startSandbox();
const environment: NodeJS.ProcessEnv = { ...process.env, ...sandbox.env };
const token: string | null = (await sandbox.messages.wait({ to: "ada@example.test", subject: /sign in/i })).link("Confirm").searchParams.get("t");
const recipient: string | undefined = (await (await sandbox.webhook(["email.sent"])).next()).data.recipient;
await using fault = await sandbox.fault("emails.send", { status: 429, retryAfter: 1 });
const hits: number = await fault.hits();
await sandbox.clock.advance("24h");
await sandbox.clock.advance({ hours: 24 });
const due: Date = (await sandbox.due())[0].at;

// @ts-expect-error: not an event
await sandbox.webhook(["email.bouncd"]);
// @ts-expect-error: the application receives these
await (await sandbox.webhook(["email.sent"], { url: sandbox.url })).next();
// @ts-expect-error: nobody's mail
await sandbox.messages.wait({ subject: "Welcome" });
// @ts-expect-error: not a duration
await sandbox.clock.advance("24 hours");
// @ts-expect-error: not a variable of `svc sandbox exec`
sandbox.env.EMAIL_URI;
