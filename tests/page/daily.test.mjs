// The page in daily use: what it says is so, and what a tester looks for is found.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
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
  await page.getByText('The email service retries a failed delivery after 2 s, 8 s and 32 s').waitFor();
  await page.getByText('the extraction service after 2 s, 4 s, 8 s, 16 s and 32 s.').waitFor();
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

/** A webhook of the email service. */
const webhook = (to, path, events, active = true) => call(to, 'POST', '/api/v1/webhooks', { url: other.url + path, events })
  .then(async (created) => (active ? created : call(to, 'PATCH', `/api/v1/webhooks/${created.id}`, { active })));

const send = async (to, address, more = {}) => {
  const { id } = await call(to, 'POST', '/api/v1/emails', { from: 'Shop <hello@sandbox.test>', to: address, subject: `To ${address}`, text: 'Hello', ...more });
  if (!more.scheduledAt) await call(to, 'GET', `/_sandbox/messages/wait?to=${encodeURIComponent(address)}`);
  return id;
};

test('why a webhook got nothing is told apart, and follows live', async () => {
  const own = await start([]);
  const id = await send(own, 'ada@example.test');
  const page = await open(own, `emails/${id}?tab=deliveries`);
  await page.getByText('No webhook of the email service exists.').waitFor();
  const late = await webhook(own, '/working', ['email.delivered']);
  await page.getByText('was created after email.delivered happened.').waitFor();
  await call(own, 'DELETE', `/api/v1/webhooks/${late.id}`);
  await page.getByText('No webhook of the email service exists.').waitFor();

  await webhook(own, '/bounces', ['email.bounced']);
  const paused = await webhook(own, '/paused', ['email.delivered'], false);
  const other = await send(own, 'grace@example.test');
  await page.goto(`${own.url}/#/emails/${other}?tab=deliveries`);
  const reasons = page.locator('.reasons');
  await reasons.getByText('/bounces subscribes to email.bounced, which has not happened to this email.').waitFor();
  await reasons.getByText('/paused is paused, so it was not sent email.delivered.').waitFor();
  await call(own, 'PATCH', `/api/v1/webhooks/${paused.id}`, { active: true });
  await reasons.getByText('was paused, or not subscribed, when email.delivered happened').waitFor();
  // What happens next goes out, and the reason goes.
  await page.getByRole('tab', { name: 'Story', exact: true }).click();
  await page.getByRole('button', { name: 'Bounce', exact: true }).click();
  await page.getByRole('tab', { name: /Deliveries/ }).click();
  await page.locator('.card').getByRole('link', { name: 'email.bounced' }).waitFor();
  await reasons.getByText('/bounces').waitFor({ state: 'detached' });
  await close(page);
});

test('a failed domain check says what was expected and found', async () => {
  const own = await start([]);
  await call(own, 'POST', '/api/v1/domains', { name: 'shop.test' });
  await call(own, 'POST', '/_sandbox/dns/shop.test/publish', { records: ['mx', 'spf'] });
  const page = await open(own, 'domains');
  const card = page.getByRole('region', { name: 'shop.test' });
  await card.getByRole('button', { name: 'Verify' }).click();
  const failure = card.getByRole('alert');
  await failure.getByText('DMARC _dmarc.shop.test').waitFor();
  await failure.getByText('Expected v=DMARC1').waitFor();
  await failure.getByText('Found nothing').first().waitFor();
  assert.equal(await failure.locator('dt').count(), 2, 'the records that passed are not in it');
  await page.locator('.toast.bad').getByText('2 of 4 records failed the check').waitFor();
  await page.reload();
  await failure.getByText('Expected v=DMARC1').waitFor();
  await card.getByRole('button', { name: 'Publish' }).click();
  await card.getByText('verified', { exact: true }).waitFor();
  await failure.waitFor({ state: 'detached' });
  await close(page);
});

test('a frozen clock shows on every view, and can run again from there', async () => {
  const own = await start([]);
  await webhook(own, '/failing', ['email.delivered']);
  const page = await open(own, 'keys');
  await page.getByText('Live', { exact: true }).waitFor();
  await call(own, 'POST', '/_sandbox/clock', { freeze: true });
  await page.getByText('The clock is frozen').waitFor();
  await send(own, 'ada@example.test');
  await until(async () => (await call(own, 'GET', '/_sandbox/deliveries')).data[0]?.attemptCount === 1, 'the first attempt failed');
  const { id } = (await call(own, 'GET', '/_sandbox/deliveries')).data[0];
  await page.goto(`${own.url}/#/deliveries/${id}`);
  await page.getByText(/The next attempt is due at .*, when the clock runs/).waitFor();
  await page.goto(`${own.url}/#/clock`);
  await page.getByText(/in .*, when the clock runs/).waitFor();
  await page.setViewportSize({ width: 390, height: 740 });
  await page.getByRole('button', { name: 'Clock frozen' }).waitFor();
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByRole('button', { name: 'Let it run' }).click();
  await page.getByText('The clock is frozen').waitFor({ state: 'detached' });
  assert.equal((await call(own, 'GET', '/_sandbox/clock')).frozen, false);
  await close(page);
});

test('webhooks are created, tested, paused and deleted, and show their secret', async () => {
  const own = await start([]);
  const page = await open(own, 'webhooks');
  await page.getByText('No webhook exists').or(page.getByText('No webhook', { exact: true })).first().waitFor();
  await page.getByRole('button', { name: 'New webhook' }).click();
  await page.getByLabel('URL').fill(`${other.url}/working`);
  await page.getByLabel('email.opened').check();
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByText('Nothing has been sent to it yet.').waitFor();
  const [created] = await call(own, 'GET', '/_sandbox/webhooks');
  assert.deepEqual(created.events, ['email.sent', 'email.delivered', 'email.bounced', 'email.opened', 'email.complained', 'email.failed', 'email.received']);
  assert.ok(!(await page.content()).includes(created.secret), 'the secret is shown on demand');
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.getByText(created.secret).waitFor();
  await page.getByRole('button', { name: 'Test', exact: true }).click();
  await page.getByRole('row').filter({ hasText: 'webhook.test' }).getByText('delivered').waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.locator('.facts').getByText('paused').waitFor();
  assert.equal((await call(own, 'GET', '/_sandbox/webhooks'))[0].active, false);
  await page.getByRole('button', { name: 'Delete the webhook' }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('No webhook', { exact: true }).waitFor();

  await page.getByRole('button', { name: 'New webhook' }).click();
  await page.getByLabel('Service').selectOption('extraction');
  await page.getByLabel('URL').fill(`${other.url}/working`);
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByText('Nothing has been sent to it yet.').waitFor();
  assert.deepEqual((await call(own, 'GET', '/_sandbox/webhooks')).map((one) => [one.service, one.events]), [['extraction', ['extraction.completed', 'extraction.failed']]]);
  await close(page);
});

test('rows tell the sender, the first words and attachments, and the unread are counted', async () => {
  const own = await start([]);
  const content = btoa('%PDF-1.4');
  await send(own, 'ada@example.test', { text: 'Your  parcel\n is here', attachments: [{ filename: 'a.pdf', content }] });
  await send(own, 'grace@example.test', { text: '', html: '<style>p{}</style><p>Hello <b>Grace</b></p>' });
  const page = await open(own, 'emails');
  await page.getByRole('link', { name: 'Mailbox 2 unread' }).click();
  await page.waitForFunction(() => document.title === '(2) Mailbox · Sandbox');
  const row = (text) => page.locator('.list-item').filter({ hasText: text });
  await row('Shop to ada@example.test').getByText('Your parcel is here').waitFor();
  await row('Your parcel is here').getByText('1 attachment', { exact: true }).waitFor({ state: 'attached' });
  await row('Shop to grace@example.test').getByText('Hello Grace').waitFor();
  await row('Hello Grace').getByRole('link').click();
  await page.waitForFunction(() => document.title === '(1) Mailbox · Sandbox');
  await send(own, 'bob@example.test');
  await page.waitForFunction(() => document.title === '(2) Mailbox · Sandbox');
  await page.getByRole('button', { name: 'Mark all as read' }).click();
  await page.waitForFunction(() => document.title === 'Mailbox · Sandbox');
  await page.reload();
  await page.getByRole('link', { name: 'Mailbox', exact: true }).waitFor();
  await close(page);
});

test('a scheduled email is found, sent now, or cancelled', async () => {
  const own = await start([]);
  const later = { scheduledAt: '2090-01-01T09:00:00Z' };
  const first = await send(own, 'now@example.test', later);
  const second = await send(own, 'never@example.test', later);
  await send(own, 'ada@example.test');
  const page = await open(own, 'emails');
  await page.getByLabel('Status').selectOption('scheduled');
  await until(async () => (await page.locator('.list-item').count()) === 2, 'the scheduled emails are left');
  await page.goto(`${own.url}/#/emails/${first}`);
  await page.getByRole('button', { name: 'Send now' }).click();
  await page.locator('.timeline').getByText('delivered').waitFor();
  await page.getByRole('button', { name: 'Send now' }).waitFor({ state: 'detached' });
  await page.goto(`${own.url}/#/emails/${second}`);
  await page.getByRole('button', { name: 'Cancel it' }).click();
  await page.locator('.timeline').getByText('cancelled').waitFor();
  assert.deepEqual((await call(own, 'GET', '/_sandbox/messages')).data.map((one) => one.recipient).sort(), ['ada@example.test', 'now@example.test']);
  await close(page);
});

test('messages are deleted: one, those selected, all of them, and nothing else', async () => {
  const own = await start([]);
  await webhook(own, '/working', ['email.delivered']);
  for (let n = 0; n < 6; n += 1) await send(own, `user${n}@example.test`);
  const left = async () => (await call(own, 'GET', '/_sandbox/messages')).data.map((one) => one.recipient[4]).join('');
  const page = await open(own, 'mailbox');
  const row = (n) => page.locator('.list-item').filter({ hasText: `to user${n}@` });
  await row(5).getByRole('link').click();
  await page.getByRole('button', { name: 'Delete the message' }).click();
  await page.getByRole('heading', { name: 'To user4@example.test' }).waitFor();
  await row(5).waitFor({ state: 'detached' });
  assert.equal(await left(), '43210');
  for (const n of [3, 1]) {
    await row(n).hover();
    await row(n).getByLabel('Select').check();
  }
  await page.getByRole('button', { name: 'Delete the selected messages' }).click();
  await page.getByRole('dialog', { name: 'Delete 2 selected messages?' }).getByRole('button', { name: 'Delete', exact: true }).click();
  await row(3).waitFor({ state: 'detached' });
  await until(async () => (await left()) === '420', 'the selected messages are deleted');
  await page.getByLabel('Search').fill('to:user2@example.test');
  await until(async () => (await page.locator('.list-item').count()) === 1, 'one message is left');
  await page.getByRole('button', { name: 'Delete all messages that match' }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('No message matches').waitFor();
  assert.equal(await left(), '40');
  await page.getByLabel('Search').fill('');
  await row(4).waitFor();
  await page.getByRole('button', { name: 'Delete all messages' }).click();
  await page.getByRole('button', { name: 'Delete', exact: true }).click();
  await page.getByText('The mailbox is empty').waitFor();
  assert.equal(await left(), '');
  assert.equal((await call(own, 'GET', '/_sandbox/emails')).data.length, 6);
  assert.equal((await call(own, 'GET', '/_sandbox/webhooks')).length, 1);
  assert.equal((await call(own, 'GET', '/_sandbox/domains')).data.length, 1);
  await page.getByRole('button', { name: 'Empty Sandbox…' }).click();
  for (const what of ['emails', 'messages', 'webhooks', 'deliveries', 'domains', 'audiences', 'contacts', 'templates', 'faults', 'requests']) {
    await page.getByRole('dialog').getByText(what).waitFor();
  }
  await close(page);
});

test('a link shows where it leads and its tracking address, and text has links', async () => {
  const own = await start([]);
  const target = await otherHost('<title>The shop</title>');
  await webhook(own, '/working', ['email.clicked']);
  const id = await send(own, 'ada@example.test', { text: `See ${target.url}/text.`, html: `<a href="${target.url}/html?a=1&amp;b=2">Open</a>` });
  const message = (await call(own, 'GET', '/_sandbox/messages')).data[0].id;
  const page = await open(own, `mailbox/${message}?tab=links`);
  page.problems = { push: () => {} };
  const visit = async (link) => {
    const [opened] = await Promise.all([page.context().waitForEvent('page'), link.click()]);
    await opened.waitForURL(`${target.url}/**`);
    const url = opened.url();
    await opened.close();
    return url;
  };
  const row = page.getByRole('row').filter({ hasText: 'Open' });
  assert.equal(await visit(row.getByRole('link').first()), `${target.url}/html?a=1&b=2`);
  const events = async () => (await call(own, 'GET', `/_sandbox/emails/${id}/story`)).timeline.map((one) => one.event);
  assert.ok(!(await events()).includes('email.clicked'));
  assert.equal(await visit(row.getByRole('link').last()), `${target.url}/html?a=1&b=2`);
  await until(async () => (await events()).includes('email.clicked'), 'the click is recorded');
  await page.getByRole('tab', { name: 'Text', exact: true }).click();
  assert.equal(await visit(page.locator('.text-body').getByRole('link')), `${target.url}/text`);
  await page.context().close();
});

test('text of users has the direction of its language', async () => {
  const own = await start([]);
  await send(own, 'dana@example.test', { from: 'חנות <hello@sandbox.test>', subject: 'שלום דנה', text: 'שלום, הקוד שלך: 771204' });
  const message = (await call(own, 'GET', '/_sandbox/messages')).data[0].id;
  const page = await open(own, `mailbox/${message}?tab=text`);
  const direction = (locator) => locator.evaluate((element) => getComputedStyle(element).direction);
  await page.locator('.text-body').waitFor();
  assert.equal(await direction(page.locator('.text-body')), 'rtl');
  assert.equal(await direction(page.locator('h2')), 'rtl');
  assert.equal(await direction(page.locator('.row .strong')), 'rtl');
  assert.equal(await direction(page.locator('.row .second span')), 'rtl');
  assert.equal(await direction(page.locator('.facts dd').first()), 'rtl');
  assert.equal(await direction(page.locator('.facts dd').nth(1)), 'ltr');
  await close(page);
});

test('commands of the page work as pasted, in every organization', async () => {
  const own = await start([]);
  const page = await open(own, 'mailbox');
  const run = (text) => spawnSync('bash', ['-c', text], { encoding: 'utf8', env: { PATH: `${dirname(process.env.SVC_PAGE_SVC)}:${process.env.PATH}`, HOME: mkdtempSync(join(tmpdir(), 'page-')) } });
  const pasted = run(await page.getByLabel('Command', { exact: true }).textContent());
  assert.equal(pasted.status, 0, pasted.stderr);
  await page.locator('.list-item').getByText('to ada@example.test').waitFor();

  await page.getByLabel('Organization').selectOption('new');
  await page.getByLabel('Name').fill('Lovelace');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.waitForURL(/organization=org_/);
  const organization = new URL(page.url()).hash.split('organization=')[1];
  const command = await page.getByLabel('Command', { exact: true }).textContent();
  const [, url, key, from] = /^SVC_SANDBOX_URL=(\S+) SVC_EMAIL_KEY=(\S+) svc --sandbox emails send --from (\S+) /.exec(command);
  assert.equal(url, own.url);
  assert.match(key, /^mk_test_/);
  assert.match(from, /^hello@/);
  const sent = run(command);
  assert.equal(sent.status, 0, sent.stderr);
  await page.locator('.list-item').getByText('to ada@example.test').waitFor();
  const [{ id }] = (await call(own, 'GET', `/_sandbox/emails?organization=${organization}`)).data;

  // The curl of another email sends one more as the same organization.
  await page.goto(`${own.url}/#/emails/${id}?organization=${organization}&tab=calls`);
  await page.getByRole('button', { name: 'curl' }).click();
  const curl = await page.getByRole('region', { name: 'Call' }).textContent();
  assert.match(run(curl).stdout, /"id":"eml_/);
  await until(async () => (await call(own, 'GET', `/_sandbox/emails?organization=${organization}`)).data.length === 2, 'the second email is there');

  // An organization whose keys this tab does not know asks before it creates one.
  const unknown = await call(own, 'POST', '/_sandbox/organizations', { name: 'Hopper' });
  await page.goto(`${own.url}/#/mailbox?organization=${unknown.id}`);
  await page.getByRole('button', { name: 'Use a new key' }).click();
  const other = await page.getByLabel('Command', { exact: true }).textContent();
  assert.match(other, new RegExp(` SVC_EMAIL_KEY=mk_test_\\w+ svc --sandbox emails send --from hello@${unknown.domain} `));

  await page.goto(`${own.url}/#/keys`);
  await page.getByText('mk_test_sandbox').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Copy the key' }).count(), 2);
  await close(page);
});

test('an old message that is opened by its URL has its neighbours', async () => {
  const own = await start([]);
  const emails = Array.from({ length: 100 }, (_, n) => ({ from: 'hello@sandbox.test', subject: `Batch ${n}`, text: 'x', to: [1, 2, 3, 4].map((to) => `user${n}-${to}@example.test`) }));
  await call(own, 'POST', '/api/v1/emails/batch', { emails });
  await until(async () => (await call(own, 'GET', '/_sandbox/emails?status=delivered&limit=100')).data.length === 100, 'all are delivered');
  let ids = [];
  for (let cursor = ''; cursor !== null;) {
    const list = await call(own, 'GET', `/_sandbox/messages?limit=100${cursor && `&cursor=${cursor}`}`);
    ids = [...ids, ...list.data.map((one) => one.id)];
    cursor = list.next;
  }
  const page = await open(own, `mailbox/${ids[250]}`);
  await page.locator(`.row[data-id="${ids[250]}"][aria-current]`).waitFor();
  await page.getByRole('button', { name: 'Next message' }).click();
  await page.waitForURL(new RegExp(ids[251]));
  await page.getByRole('button', { name: 'Previous message' }).click();
  await page.waitForURL(new RegExp(ids[250]));
  await page.locator(`.row[data-id="${ids[250]}"][aria-current]`).waitFor();
  for (const [key, at] of [['k', 249], ['j', 250], ['ArrowUp', 249], ['ArrowDown', 250]]) {
    await page.keyboard.press(key);
    await page.waitForURL(new RegExp(ids[at]));
    await page.locator(`.row[data-id="${ids[at]}"]:focus`).waitFor();
  }
  await close(page);
});

test('a long subject is folded, widths are exact, and the list can be hidden', async () => {
  const own = await start([]);
  const subject = 'Long subject '.repeat(77).slice(0, 990);
  await send(own, 'ada@example.test', { subject, html: '<p>Hello</p>' });
  const message = (await call(own, 'GET', '/_sandbox/messages')).data[0].id;
  const page = await open(own, `mailbox/${message}`);
  const heading = page.locator('.detail-head h2');
  await heading.waitFor();
  assert.ok((await heading.textContent()).length < 200);
  await page.getByRole('button', { name: 'Show all 990 characters' }).click();
  assert.equal((await heading.textContent()).trim(), subject.trim());
  await page.getByRole('button', { name: 'Fold the subject' }).click();
  const width = () => page.locator('iframe').evaluate((frame) => frame.clientWidth);
  for (const [name, pixels] of [['Phone', 375], ['Tablet', 768]]) {
    await page.getByRole('button', { name }).click();
    assert.equal(await width(), pixels, name);
  }
  await page.getByRole('button', { name: 'Hide the list' }).click();
  assert.ok(!(await page.locator('.list').isVisible()));
  assert.equal(await width(), 768);
  // Without an item, the list is there.
  await page.getByRole('link', { name: 'Emails', exact: true }).click();
  await page.locator('.list-item').waitFor();
  await page.goto(`${own.url}/#/mailbox/${message}`);
  await page.getByRole('button', { name: 'Show the list' }).click();
  assert.ok(await page.locator('.list').isVisible());
  await close(page);
});

test('the page causes no content-security errors of its own', async () => {
  const own = await start([]);
  await send(own, 'ada@example.test', { html: '<style>p { color: red }</style><p style="margin: 0" onclick="x()">Hello</p>' });
  const message = (await call(own, 'GET', '/_sandbox/messages')).data[0].id;
  const page = await open(own, 'mailbox');
  const errors = [];
  page.on('console', (entry) => /Content Security Policy/.test(entry.text()) && errors.push(entry.text()));
  for (const [tab, text] of [['html', 'Full'], ['checks', 'HTML size'], ['compatibility', 'margin'], ['links', 'Text']]) {
    await page.goto(`${own.url}/#/mailbox/${message}?tab=${tab}`);
    await page.getByText(text).first().waitFor();
  }
  for (const view of ['emails', 'deliveries', 'webhooks', 'domains', 'audiences', 'templates', 'requests', 'faults', 'clock', 'keys']) {
    await page.goto(`${own.url}/#/${view}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
  }
  assert.deepEqual(errors, []);
  await close(page);
});

test('a field that does not exist is named, with those that do', async () => {
  const page = await open(server, 'mailbox?q=has:attachment');
  await page.getByText('There is no field has: here. The fields are to:, from:, subject:, after:.').waitFor();
  assert.equal(await page.locator('.list-item').count(), 0);
  await page.goto(`${server.url}/#/emails?q=from:ada`);
  await page.getByText('There is no field from: here. The fields are status:, address:,').waitFor();
  await close(page);
});

test('one search finds a person in every view: a part of an address, a word of the text, a code, an event', async () => {
  const own = await start([]);
  await webhook(own, '/working', ['email.delivered', 'email.bounced']);
  for (let n = 0; n < 150; n += 1) await call(own, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: `user${n}@example.test`, subject: `Order ${n}`, text: 'Hello' });
  await send(own, 'Ada Lovelace <ada.lovelace@example.test>', { subject: 'Welcome', text: 'Your engine is ready. Your code is 493817.' });
  await call(own, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'bounced@example.test', subject: 'Never', text: 'x' });
  for (let n = 150; n < 300; n += 1) await call(own, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: `user${n}@example.test`, subject: `Order ${n}`, text: 'Hello' });
  await until(async () => (await call(own, 'GET', '/_sandbox/deliveries?search=user299')).data[0]?.state === 'delivered', 'the last delivery was made');
  const page = await open(own, 'mailbox');
  const found = async (view, words, text) => {
    await page.goto(`${own.url}/#/${view}`);
    await page.getByLabel('Search').fill(words);
    await until(async () => {
      const rows = await page.locator('.list-item').allTextContents();
      return rows.length === 1 && rows[0].includes(text);
    }, `${words} finds ${text} in ${view}`);
  };
  await found('mailbox', 'lovelace', 'Welcome');
  await found('mailbox', 'ENGINE ready', 'Welcome');
  await found('mailbox', '493817', 'Welcome');
  await found('emails', 'lovelace', 'Welcome');
  await found('emails', 'bounced', 'Never');
  await found('deliveries', 'lovelace', 'email.delivered · ada.lovelace@example.test');
  await found('deliveries', 'bounced', 'Never');
  await found('deliveries', 'event:bounced', 'Never');
  await found('requests', 'lovelace', 'emails.send');
  // The same from anywhere.
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Command or ID' }).fill('lovelace');
  await page.getByRole('option', { name: 'Deliveries: “lovelace”' }).click();
  await page.waitForURL(/#\/deliveries\?q=lovelace/);
  await page.locator('.list-item').getByText('ada.lovelace@example.test').waitFor();
  await close(page);
});
