// The page in daily use: what it says is so, and what a tester looks for is found.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { call, close, open, otherHost, start, until } from './support.mjs';

let server, other;

before(async () => {
  server = await start([]);
  other = await otherHost();
});

/** A received message with this source. @returns the ID of the message */
async function receive(to, source) {
  const response = await fetch(`${to.url}/_sandbox/inbound`, { method: 'POST', headers: { 'content-type': 'message/rfc822' }, body: source });
  const text = await response.text();
  assert.equal(response.status, 202, text);
  return JSON.parse(text).messages[0].id;
}

test('the times of retries are those of each service', async () => {
  const own = await start([]);
  await call(own, 'POST', '/_sandbox/clock', { freeze: true });
  const created = await fetch(`${own.url}/v1/webhooks`, { method: 'POST', headers: { authorization: 'Bearer sk_test_sandbox', 'content-type': 'application/json' },
    body: JSON.stringify({ url: `${other.url}/failing`, events: ['extraction.completed'] }) });
  assert.ok(created.ok, await created.text());
  await call(own, 'POST', '/_sandbox/extractions', { event: 'extraction.completed' });
  await until(async () => (await call(own, 'GET', '/_sandbox/deliveries')).data[0]?.attemptCount === 1, 'the first attempt failed');
  const page = await open(own, 'deliveries');
  // As the reference of each service has them.
  await page.getByText('of the email service after 2 s, 8 s and 32 s').waitFor();
  await page.getByText('of the extraction service after 2 s, 4 s, 8 s, 16 s and 32 s.').waitFor();
  await close(page);
});

test('a signature is aligned with a domain above or below the sender', async () => {
  const aligned = async (from, signer) => {
    const id = await receive(server, `From: ${from}\r\nTo: inbox@sandbox.test\r\nSubject: Alignment\r\nDKIM-Signature: v=1; a=rsa-sha256; d=${signer}; s=one; h=from; bh=AAAA; b=AAAA\r\n\r\nHello\r\n`);
    const page = await open(server, `mailbox/${id}?tab=checks`);
    const row = page.locator('tr').filter({ hasText: 'DMARC alignment' });
    const result = await row.locator('.badge').textContent();
    await close(page);
    return result;
  };
  assert.equal(await aligned('ada@sandbox.test', 'sandbox.test'), 'pass');
  assert.equal(await aligned('ada@mail.sandbox.test', 'sandbox.test'), 'pass');
  assert.equal(await aligned('ada@sandbox.test', 'mail.sandbox.test'), 'pass');
  assert.equal(await aligned('ada@notsandbox.test', 'sandbox.test'), 'fail');
});
