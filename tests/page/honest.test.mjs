// The page never misleads, and says what happens next.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { call, close, open, otherHost, start, until } from './support.mjs';

const hosts = [];
after(() => hosts.forEach((host) => host.close()));

/** An endpoint that responds with the status in its path, and a body that says why. */
async function endpoint() {
  const host = createServer((request, response) => {
    request.resume();
    response.statusCode = Number(request.url.slice(1));
    response.end(response.statusCode < 300 ? '' : 'column "amount" is missing');
  }).listen(0, '127.0.0.1');
  hosts.push(host);
  await once(host, 'listening');
  return `http://127.0.0.1:${host.address().port}`;
}

let server, url;

before(async () => {
  server = await start([]);
  url = await endpoint();
});

const webhook = (to, target, events = ['email.delivered']) => call(to, 'POST', '/api/v1/webhooks', { url: target, events });

const send = async (to, address, more = {}) => {
  const { id } = await call(to, 'POST', '/api/v1/emails', { from: 'Shop <hello@sandbox.test>', to: address, subject: `To ${address}`, text: 'Hello', ...more });
  return id;
};

test('a test of a webhook tells what the endpoint answered', async () => {
  const page = await open(server, 'webhooks');
  for (const [target, kind, text] of [[`${url}/500`, 'bad', 'The endpoint responded 500'], [`${url}/204`, 'good', 'The endpoint responded 204'],
    ['http://127.0.0.1:1/', 'bad', /^No response: .*refused/]]) {
    const { id } = await webhook(server, target);
    await page.goto(`${server.url}/#/webhooks/${id}`);
    await page.getByRole('button', { name: 'Test', exact: true }).click();
    await page.locator(`.toast.${kind}`).getByText(text).waitFor();
  }
  await close(page);
});

test('a webhook whose last deliveries all failed is not active in green, and the response is shown first', async () => {
  const own = await start([]);
  await call(own, 'POST', '/_sandbox/clock', { freeze: true });
  const { id } = await webhook(own, `${url}/422`);
  for (let n = 0; n < 14; n += 1) await send(own, `user${n}@example.test`);
  const email = await send(own, 'ada@example.test');
  await call(own, 'POST', '/_sandbox/settle', {});
  const page = await open(own, 'webhooks');
  await page.locator('.list-item .badge.bad').getByText('15 of 15 failed: 422').waitFor();
  assert.equal(await page.getByText('active', { exact: true }).count(), 0);
  await page.goto(`${own.url}/#/emails/${email}?tab=deliveries`);
  await page.locator('.card').getByText('column "amount" is missing').waitFor();
  // The first one that succeeds ends it.
  await call(own, 'PATCH', `/api/v1/webhooks/${id}`, { url: `${url}/200` });
  await call(own, 'POST', '/_sandbox/clock', { advance: '2s' });
  await page.goto(`${own.url}/#/webhooks`);
  await page.locator('.list-item .badge.good').getByText('active').waitFor();
  await close(page);
});

test('a call that is copied works: also of a long email with attachments and tracked links', async () => {
  const own = await start([]);
  await webhook(own, `${url}/200`, ['email.opened', 'email.clicked']);
  const html = `<p>${'Long. '.repeat(2000)}</p><a href="https://shop.test/?a=1&amp;token=s3cret">Open</a>`;
  const attachments = [{ filename: 'grüße.txt', content: Buffer.from('Grüße').toString('base64'), contentType: 'text/plain' }];
  const email = await send(own, 'ada@example.test', { html, text: "It's ${HOME} \\ \"quoted\"\nSecond line", attachments, headers: { 'X-Shop': 'yes' }, tags: { kind: 'order' }, replyTo: 'help@sandbox.test' });
  await call(own, 'POST', '/_sandbox/settle', {});
  const first = (await call(own, 'GET', '/_sandbox/messages')).data[0].id;
  const page = await open(own, `emails/${email}?tab=calls`);
  const content = async (id) => {
    const { text, html, subject, tags, headers, attachments, links } = await call(own, 'GET', `/_sandbox/messages/${id}`);
    return { text, html: html.replace(/eml_[\da-f-]{36}/g, 'ID'), subject, tags, shop: headers['X-Shop'], reply: headers['Reply-To'],
      attachments: attachments.map(({ filename, size }) => [filename, size]), links: links.map((one) => one.url) };
  };
  const expected = await content(first);
  for (const [language, command] of [['svc', 'bash'], ['curl', 'bash'], ['TypeScript', 'node'], ['Python', 'python3']]) {
    await page.getByRole('button', { name: language, exact: true }).click();
    const text = await page.getByRole('region', { name: 'Call' }).textContent();
    await page.getByRole('button', { name: 'Copy call' }).waitFor();
    const env = { PATH: `${dirname(process.env.SVC_PAGE_SVC)}:${process.env.PATH}`, HOME: mkdtempSync(join(tmpdir(), 'page-')) };
    const flags = { node: ['--input-type=module', '-e'], bash: ['-c'], python3: ['-c'] }[command];
    const ran = spawnSync(command, [...flags, text], { encoding: 'utf8', env });
    assert.equal(ran.status, 0, `${language}: ${ran.stderr}\n${text}`);
    await call(own, 'POST', '/_sandbox/settle', {});
    assert.deepEqual(await content((await call(own, 'GET', '/_sandbox/messages?limit=1')).data[0].id), expected, language);
  }
  // The same as a new email.
  await page.getByRole('button', { name: 'Send again' }).click();
  await page.waitForURL((to) => !to.href.includes(email));
  await page.getByText('The email was sent again, as a new one').waitFor();
  await call(own, 'POST', '/_sandbox/settle', {});
  assert.deepEqual(await content((await call(own, 'GET', '/_sandbox/messages?limit=1')).data[0].id), expected);
  assert.equal((await call(own, 'GET', '/_sandbox/emails')).data.length, 6);
  await close(page);
});

test('a call whose secrets are redacted says so, and cannot be copied', async () => {
  const id = await send(server, 'bounced@example.test', { html: '<a href="https://shop.test/reset?token=abc">Reset</a>' });
  await call(server, 'POST', '/_sandbox/settle', {});
  const page = await open(server, `emails/${id}?tab=calls`);
  await page.getByText('This call cannot be copied. The log redacts secrets').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Copy call' }).count(), 0);
  await page.getByRole('button', { name: 'Send again' }).click();
  await page.locator('.toast.bad').getByText('cannot be sent again').waitFor();
  // An error is about what was in view.
  await page.getByRole('link', { name: 'Mailbox' }).click();
  await page.locator('.toast.bad').waitFor({ state: 'detached' });
  await close(page);
});

test('the clock says how far ahead it is, asks before it is advanced, and goes back to real time', async () => {
  const own = await start([]);
  await send(own, 'ada@example.test', { subject: 'Reminder', scheduledAt: new Date(Date.now() + 3_600_000).toISOString() });
  const page = await open(own, 'clock');
  await page.getByText('The time of this computer.').waitFor();
  await page.getByRole('button', { name: '1d' }).click();
  const dialog = page.getByRole('dialog', { name: 'Advance the clock by 1d?' });
  await dialog.getByText('By then, 1 thing falls due').waitFor();
  await dialog.getByText('"Reminder" to ada@example.test is sent, as scheduled').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  assert.ok((await call(own, 'GET', '/_sandbox/clock')).ahead < 60_000);
  await page.getByRole('button', { name: '1d' }).click();
  await dialog.getByRole('button', { name: 'Advance' }).click();
  await page.getByRole('region', { name: 'Time' }).getByText('1 day ahead of this computer').waitFor();
  await page.getByRole('link', { name: 'Mailbox' }).click();
  await page.getByRole('navigation').getByText('1 day ahead of this computer').waitFor();
  await page.getByRole('button', { name: 'Empty Sandbox…' }).click();
  await page.getByRole('dialog').getByText('the clock and other organizations stay').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('navigation').getByRole('button', { name: 'Back to real time' }).click();
  await page.getByText('1 day ahead of this computer').waitFor({ state: 'detached' });
  assert.ok(Math.abs((await call(own, 'GET', '/_sandbox/clock')).ahead) < 60_000);
  await close(page);
});

test('to look at a message opens nothing, and to open it is a button of its own', async () => {
  const own = await start([]);
  const other = await otherHost();
  await webhook(own, `${url}/200`, ['email.opened']);
  const id = await send(own, 'ada@example.test', { html: `<p>Hello</p><img src="${other.url}/remote" alt="">` });
  await call(own, 'POST', '/_sandbox/settle', {});
  const message = (await call(own, 'GET', '/_sandbox/messages')).data[0].id;
  const page = await open(own, `mailbox/${message}`);
  page.problems = { push: () => {} };
  await page.getByText('Remote content is blocked (1)').waitFor();
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await until(() => other.hits.includes('/remote'), 'remote content is loaded');
  const events = async () => (await call(own, 'GET', `/_sandbox/emails/${id}/story`)).timeline.map((one) => one.event);
  assert.ok(!(await events()).includes('email.opened'));
  await page.getByRole('button', { name: 'Simulate opening' }).click();
  await page.getByText('The email counts as opened').waitFor();
  assert.ok((await events()).includes('email.opened'));
  // The pixel that counts is the sandbox's, not the sender's.
  await page.getByRole('tab', { name: 'Checks' }).click();
  assert.equal(await page.locator('tr').filter({ hasText: 'Remote content' }).locator('.badge').textContent(), '1');
  await page.context().close();
});

test('what cannot be simulated now is disabled, with the reason', async () => {
  const id = await send(server, 'ada@example.test');
  await call(server, 'POST', '/_sandbox/settle', {});
  const page = await open(server, `emails/${id}`);
  const button = (name) => page.getByRole('button', { name, exact: true });
  await page.getByText('Not possible while the recipient is delivered: Deliver, Fail.').waitFor();
  assert.deepEqual([await button('Deliver').isDisabled(), await button('Bounce').isDisabled()], [true, false]);
  assert.match(await button('Deliver').getAttribute('title'), /^Only possible while a recipient is sending or sent; now: delivered/);
  await button('Bounce').click();
  await page.getByText('Not possible while the recipient is bounced: Deliver, Bounce, Open, Click, Complain, Fail.').waitFor();
  await close(page);
});

test('5 000 unread messages are counted, and 200 mails a second cost no long task', async () => {
  const own = await start([]);
  const to = Array.from({ length: 50 }, (_, n) => `user${n}@example.test`);
  const emails = Array.from({ length: 100 }, (_, n) => ({ from: 'hello@sandbox.test', subject: `Order ${n}`, text: 'x', to }));
  await call(own, 'POST', '/api/v1/emails/batch', { emails });
  await call(own, 'POST', '/_sandbox/settle', { timeout: '60s' });
  const page = await open(own, 'mailbox');
  await page.getByRole('link', { name: 'Mailbox 5000 unread' }).waitFor();
  await page.locator('.row').nth(1).click();
  await page.getByRole('link', { name: 'Mailbox 4999 unread' }).waitFor();
  // A message that was read and is deleted, here or elsewhere, changes nothing.
  await page.getByRole('button', { name: 'Delete the message' }).click();
  await page.getByRole('link', { name: 'Mailbox 4998 unread' }).waitFor();
  const { id } = (await call(own, 'GET', '/_sandbox/messages?limit=2')).data[1];
  await call(own, 'DELETE', `/_sandbox/messages/${id}`);
  await until(async () => /Mailbox 499[78] unread/.test(await page.getByRole('link', { name: /Mailbox/ }).first().textContent()
    .then((text) => text.replace(/(\d+) unread/, ' $1 unread'))), 'the deleted message is not counted');

  await page.evaluate(() => {
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((one) => one.duration))).observe({ type: 'longtask' });
  });
  // Ten seconds of a mail every five milliseconds, from another process.
  const sender = spawn(process.execPath, ['--input-type=module', '-e', `
    const send = (n) => fetch('${own.url}/api/v1/emails', { method: 'POST', headers: { authorization: 'Bearer mk_test_sandbox', 'content-type': 'application/json' },
      body: JSON.stringify({ from: 'hello@sandbox.test', to: 'fast@example.test', subject: 'Fast ' + n, text: 'x' }) }).then((response) => response.text());
    const begun = Date.now();
    for (let n = 0; n < 2000; n += 20) {
      await Promise.all(Array.from({ length: 20 }, (_, one) => send(n + one)));
      await new Promise((done) => setTimeout(done, begun + (n + 20) * 5 - Date.now()));
    }`]);
  const [code] = await once(sender, 'exit');
  assert.equal(code, 0);
  const { count } = await call(own, 'GET', '/_sandbox/messages/count');
  await page.getByRole('link', { name: `Mailbox ${count - 1} unread` }).or(page.getByRole('link', { name: `Mailbox ${count} unread` })).waitFor();
  const tasks = await page.evaluate(() => window.tasks);
  console.log(`long tasks: ${tasks.map(Math.round).join(' ')} ms`);
  assert.ok(tasks.every((ms) => ms < 100), String(tasks));
  await close(page);
});

test('the address for replies is a fact, an unknown view is none, and delete dialogs count', async () => {
  const own = await start([]);
  const id = await send(own, 'ada@example.test', { replyTo: 'help@sandbox.test' });
  await send(own, 'grace@example.test');
  await call(own, 'POST', '/_sandbox/settle', {});
  const message = (await call(own, 'GET', '/_sandbox/messages?to=ada@example.test')).data[0].id;
  const page = await open(own, `emails/${id}`);
  await page.locator('.facts').getByText('help@sandbox.test').waitFor();
  await page.goto(`${own.url}/#/mailbox/${message}`);
  await page.locator('.facts').getByText('help@sandbox.test').waitFor();
  await page.getByRole('button', { name: 'Delete all messages' }).click();
  await page.getByRole('dialog', { name: 'Delete all 2 messages?' }).getByRole('button', { name: 'Cancel' }).click();
  await page.goto(`${own.url}/#/mailbox?q=grace`);
  await page.locator('.list-item').first().waitFor();
  await page.getByRole('button', { name: 'Delete all messages that match' }).click();
  await page.getByRole('dialog', { name: 'Delete 1 message that matches grace?' }).waitFor();
  await page.keyboard.press('Escape');
  await page.goto(`${own.url}/#/mailbx`);
  await page.locator('.empty').getByText('No such view').waitFor();
  await close(page);
});

test('a message is released to an address through the relay, or the page says why not', async () => {
  const outside = await start([]);
  for (const [options, text] of [[[], 'the server has no relay'], [['--relay', `smtp://${outside.smtp}`], 'The message goes to ada@real.test']]) {
    const own = await start(options);
    await send(own, 'ada@example.test', { subject: 'Released' });
    const page = await open(own, 'mailbox');
    await page.locator('.list-item', { hasText: 'Released' }).click();
    await page.getByRole('button', { name: 'Release…' }).click();
    await page.getByLabel('To', { exact: true }).fill('ada@real.test');
    await page.getByRole('button', { name: 'Send', exact: true }).click();
    await page.getByText(text).waitFor();
    await close(page);
  }
  const { subject } = await call(outside, 'GET', '/_sandbox/messages/wait?to=ada@real.test&timeout=10s');
  assert.equal(subject, 'Released');
  assert.equal((await call(outside, 'GET', '/_sandbox/messages')).data.length, 1);
});

test('what is due next is listed, and runs now or up to there', async () => {
  const own = await start([]);
  await call(own, 'POST', '/_sandbox/clock', { freeze: true });
  await webhook(own, `${url}/500`, ['email.bounced']);
  const { now } = await call(own, 'GET', '/_sandbox/clock');
  await send(own, 'ada@example.test', { subject: 'Reminder', scheduledAt: new Date(Date.parse(now) + 82_800_000).toISOString() });
  await send(own, 'grace@example.test', { subject: 'Next year', scheduledAt: '2999-01-01T00:00:00Z' });
  await send(own, 'delayed@example.test');
  await send(own, 'bounced@example.test');
  await call(own, 'POST', '/_sandbox/settle', {});
  const page = await open(own, 'mailbox');
  await page.getByRole('link', { name: 'Due next' }).click();
  await page.getByRole('heading', { name: 'In the next 24 hours: 3 things' }).waitFor();
  const row = (text) => page.getByRole('row').filter({ hasText: text });
  await row('email.bounced for bounced@example.test goes to').getByText(/attempt 2/).waitFor();
  await row('delayed@example.test is delivered, with a delay').getByText('in 1 min 0 s, when the clock runs').waitFor();
  await row('"Next year" to grace@example.test').waitFor();
  await row('delayed@').getByRole('button', { name: /^Run now/ }).click();
  await row('delayed@').waitFor({ state: 'detached' });
  assert.equal((await call(own, 'GET', '/_sandbox/messages/wait?to=delayed@example.test')).recipient, 'delayed@example.test');
  assert.equal((await call(own, 'GET', '/_sandbox/clock')).now, now);
  await row('Reminder').getByRole('button', { name: /^Run all until here/ }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Advance' }).click();
  await page.getByText('Nothing is due in the next 24 hours.').waitFor();
  await row('Next year').waitFor();
  assert.equal((await call(own, 'GET', '/_sandbox/messages?to=ada@example.test')).data.length, 1);
  await close(page);
});

test('a search says how many match, and leads to the first by key', async () => {
  const own = await start([]);
  for (let n = 0; n < 3; n += 1) await send(own, `ada${n}@example.test`);
  for (let n = 0; n < 120; n += 1) await send(own, `bob${n}@example.test`);
  await call(own, 'POST', '/_sandbox/settle', {});
  const page = await open(own, 'mailbox');
  const focused = () => page.evaluate(() => document.activeElement?.closest('.row')?.textContent ?? '');
  for (const [view, key, words, total] of [['mailbox', 'Enter', 'bob', '120'], ['mailbox', 'ArrowDown', 'ada', '3'], ['emails', 'Enter', 'ada', '3'], ['emails', 'ArrowDown', 'bob', '100+']]) {
    await page.goto(`${own.url}/#/${view}`);
    await page.locator('.row').first().waitFor();
    await page.keyboard.press('/');
    await page.keyboard.type(words);
    // At once, before the rows of the search are there.
    await page.keyboard.press(key);
    await until(async () => (await focused()).includes(`To ${words}`), `${key} leads to the first of ${words} in ${view}`);
    await page.locator('.matches').getByText(total, { exact: true }).waitFor();
  }
  await close(page);
});

test('the list is as wide as it was dragged, also after a reload', async () => {
  await send(server, 'wide@example.test');
  const page = await open(server, 'mailbox');
  await page.locator('.row').first().waitFor();
  const width = () => page.locator('.split-list').evaluate((list) => Math.round(list.clientWidth));
  const bar = await page.getByRole('separator').boundingBox();
  await page.mouse.move(bar.x + 2, bar.y + 200);
  await page.mouse.down();
  await page.mouse.move(bar.x + 122, bar.y + 210, { steps: 4 });
  await page.mouse.up();
  const dragged = await width();
  assert.ok(Math.abs(dragged - 520) < 6, `${dragged} px`);
  await page.reload();
  await page.locator('.row').first().waitFor();
  assert.equal(await width(), dragged);
  await page.getByRole('separator').focus();
  await page.keyboard.press('ArrowLeft');
  assert.equal(await width(), dragged - 20);
  // A message to select is named by its row, and its box is no part of the link.
  const box = page.getByRole('checkbox', { name: 'Select To wide@example.test to wide@example.test' });
  await box.check();
  assert.equal(new URL(page.url()).hash, '#/mailbox');
  const size = await page.locator('.pick').first().boundingBox();
  assert.deepEqual([size.width, size.height], [24, 24]);
  await close(page);
});

test('an empty mailbox says how mail gets into it, and the page what it is', async () => {
  const own = await start(['--smtp', '127.0.0.1:0']);
  const page = await open(own, 'mailbox');
  const { addresses, version } = await call(own, 'GET', '/_sandbox/health');
  await page.locator('.empty').getByText(addresses.smtp).waitFor();
  await page.locator('.empty').getByText('mk_test_sandbox', { exact: true }).waitFor();
  const command = await page.getByRole('region', { name: 'Request' }).textContent();
  const ran = spawnSync('bash', ['-c', command], { encoding: 'utf8' });
  assert.match(ran.stdout, /"id":"eml_/, ran.stderr);
  await page.locator('.list-item').getByText('to ada@example.test').waitFor();
  await page.getByText(`svc sandbox ${version}`).waitFor();
  assert.match(await page.getByRole('link', { name: 'Book' }).getAttribute('href'), /^https:\/\/github\.com\/svc-tools\/svc\//);
  await close(page);
});

test('a long value of a record is on one line until it is asked for', async () => {
  const page = await open(server, 'domains', { width: 768 });
  const value = page.locator('.fold').first();
  const folded = await value.boundingBox();
  assert.ok(folded.height < 24, `${folded.height} px`);
  await value.locator('summary').click();
  assert.match(await value.textContent(), /p=MII.{200}/);
  assert.ok((await value.boundingBox()).height > 60);
  await close(page);
});
