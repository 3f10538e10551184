// Sends email, and verifies what the email service says about it.

import { createHmac, timingSafeEqual } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

/** The service has not accepted the email. Trying again later is safe. */
export class MailRefused extends Error {}

/** The service may have accepted the email: do not send it again unseen. */
export class MailUnknown extends Error {}

export interface Email {
  from: string;
  to: string | string[];
  subject: string;
  text?: string;
  html?: string;
  attachments?: { filename: string; content: string; contentType?: string }[];
  tags?: Record<string, string>;
  scheduledAt?: string;
}

export class Mail {
  constructor(
    private readonly url: string,
    private readonly key: string,
    private readonly timeout = 5_000,
  ) {}

  /** Sends an email and returns its ID. */
  async send(email: Email): Promise<string> {
    let response = await this.request("POST", "/api/v1/emails", email);
    for (let repeats = 0; response.status === 429 && repeats < 2; repeats += 1) {
      // The service has not processed the request, so it may be repeated.
      await sleep(Math.min(Number(response.headers.get("retry-after") ?? 1), 5) * 1_000);
      response = await this.request("POST", "/api/v1/emails", email);
    }
    const text = await response.text().catch((error: Error) => {
      throw new MailUnknown(error.message, { cause: error });
    });
    if (response.status >= 500) throw new MailUnknown(text);
    if (!response.ok) throw new MailRefused(text);
    return (JSON.parse(text) as { id: string }).id;
  }

  /** Cancels a scheduled email. One that was sent meanwhile stays sent. */
  async cancel(id: string): Promise<void> {
    const response = await this.request("PATCH", `/api/v1/emails/${id}/cancel`);
    if (!response.ok && response.status !== 409) throw new Error(await response.text());
  }

  private async request(method: string, path: string, body?: unknown): Promise<Response> {
    try {
      return await fetch(this.url + path, {
        method,
        headers: { authorization: `Bearer ${this.key}`, "content-type": "application/json" },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(this.timeout),
      });
    } catch (error) {
      const { code } = ((error as Error).cause ?? {}) as { code?: string };
      const notSent = code === "ECONNREFUSED" || code === "ENOTFOUND";
      throw new (notSent ? MailRefused : MailUnknown)(String(error), { cause: error });
    }
  }
}

/** Whether the service signed this body: the bytes as they arrived, before they are parsed. */
export function isGenuine(secret: string, signature: string, body: Buffer): boolean {
  const expected = Buffer.from(createHmac("sha256", secret).update(body).digest("hex"));
  const given = Buffer.from(signature);
  return expected.length === given.length && timingSafeEqual(expected, given);
}
