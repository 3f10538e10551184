// The page in a real browser, against a server with mail, failures, retries and schedules.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { before, test } from 'node:test';
import { KEY, WEBHOOKS, call, close, open, otherHost, png, start, until } from './support.mjs';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let server;

before(async () => {
  server = await start([]);
  const other = await otherHost();
  for (const path of WEBHOOKS) {
    await call(server, 'POST', '/api/v1/webhooks', { url: other.url + path, events: ['email.delivered', 'email.bounced', 'email.opened'] });
  }
  for (let sent = 0; sent < 500; sent += 100) {
    const emails = Array.from({ length: 100 }, (_, n) => email(sent + n));
    await call(server, 'POST', '/api/v1/emails/batch', { emails });
  }
  await call(server, 'POST', '/api/v1/emails', receipt);
  server.email = (await call(server, 'POST', '/api/v1/emails', welcome)).id;
  await call(server, 'POST', '/api/v1/webhooks', { url: `${other.url}/${'path'.repeat(20)}`, events: ['email.delivered'] });
  await call(server, 'PUT', '/_sandbox/templates/welcome', WELCOME);
  const audience = await call(server, 'POST', '/api/v1/audiences', { name: 'Newsletter' });
  await call(server, 'POST', `/api/v1/audiences/${audience.id}/contacts`, { email: 'ada@example.test', name: 'Ada Lovelace', topics: ['news'] });
  await call(server, 'POST', '/_sandbox/faults', { operation: 'emails.cancel', status: 503, times: 2 });
  server.message = (await call(server, 'GET', '/_sandbox/messages/wait?to=grace@example.test')).id;
  server.audience = audience.id;
  await call(server, 'POST', '/_sandbox/organizations', { name: 'Lovelace' });
  server.webhook = (await call(server, 'GET', '/_sandbox/webhooks'))[0].id;
  server.delivery = (await call(server, 'GET', '/_sandbox/deliveries?state=delivered')).data[0].id;
  server.request = (await call(server, 'GET', '/_sandbox/requests?operation=emails.send')).data[0].id;
});

const email = (n) => ({
  from: 'Shop <hello@sandbox.test>', to: n % 20 === 0 ? `bounced+${n}@example.test` : `user${n}@example.test`,
  subject: `Order ${n}`, text: `Order ${n}: your code is ${100000 + n}.`,
  html: `<h1>Order ${n}</h1><p><a href="https://shop.example/${n}">Open</a></p>`, tags: { kind: 'order' },
  ...(n % 25 === 0 && { scheduledAt: '2090-01-01T09:00:00Z' }),
});

const LABEL = png(96, 8, Buffer.from(Array.from({ length: 96 * 97 }, (_, n) => (n % 97 === 0 ? 0 : n % 97 < 90 && (n % 97) * (n % 97) % 7 < 3 ? 30 : 245))));

const welcome = { from: 'Shop <hello@sandbox.test>', to: 'ada@example.test', subject: 'Welcome to the shop', text: 'Hello Ada', tags: { kind: 'welcome' } };

const receipt = {
  from: 'Shop <hello@sandbox.test>', to: 'Grace Hopper <grace@example.test>', subject: 'Your order 1042 is on its way',
  text: 'Your order 1042 is on its way.\n\nYour code at the parcel station: 493 817\nhttps://shop.example/orders/1042\n',
  html: `<!doctype html><html lang="en"><head><meta name="color-scheme" content="light dark"><style>
    /* The card */ body { margin: 0; background: #f3f4f8; font-family: system-ui, sans-serif; color: #1c1d22 }
    .card { max-width: 480px; margin: 24px auto; padding: 28px; background: #fff; border-radius: 12px; box-shadow: 0 1px 4px rgba(0, 0, 0, 0.15) }
    .card > h1 { font-size: 22px } .code { font-size: 30px; letter-spacing: 6px; font-weight: 700; color: #4f46e5 }
    a.button { display: inline-block; padding: 12px 20px; background: #4f46e5; color: #fff; border-radius: 8px; text-decoration: none }
    @media (prefers-color-scheme: dark) { body { background: #14151a; color: #ececf0 } .card { background: #22242c } .code { color: #a9adff } }
    </style></head><body><div class="card" role="article"><h1>Your order is on its way</h1><p>Hello Grace, parcel 1042 arrives on Tuesday.</p>
    <p>Your code at the parcel station:</p><p class="code">493817</p><p style="display: flex; gap: 8px; scroll-behavior: smooth"><a class="button" href="https://shop.example/orders/1042">Follow the parcel</a></p>
    <center>Shop, 1 Example Street</center></div></body></html>`,
  headers: { 'List-Unsubscribe': '<https://shop.example/unsubscribe/1042>', 'List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' },
  tags: { kind: 'shipping', order: '1042' },
  attachments: [{ filename: 'invoice-1042.pdf', content: btoa('%PDF-1.4\n%%EOF\n'), contentType: 'application/pdf' }, { filename: 'label.png', content: LABEL, contentType: 'image/png' }],
};

const WELCOME = {
  subject: 'Welcome, {{ name }}', text: 'Hello {{ name }}',
  html: '<h1>Welcome, {{ name }}</h1><p>Your plan is {{ plan.title }}.</p><ul>{% for step in steps %}<li>{{ step }}</li>{% endfor %}</ul>',
};

const VIEWS = {
  mailbox: () => ['mailbox', 'Order 499'],
  message: () => [`mailbox/${server.message}`, 'From', 'Hello Grace'],
  headers: () => [`mailbox/${server.message}?tab=headers`, 'DKIM-Signature'],
  checks: () => [`mailbox/${server.message}?tab=checks`, 'DMARC alignment'],
  compatibility: () => [`mailbox/${server.message}?tab=compatibility`, 'border-radius'],
  attachments: () => [`mailbox/${server.message}?tab=attachments`, 'invoice-1042.pdf'],
  links: () => [`mailbox/${server.message}?tab=links`, 'Leads to'],
  source: () => [`mailbox/${server.message}?tab=source`, 'MIME-Version'],
  emails: () => ['emails', 'Order 499'],
  story: () => [`emails/${server.email}`, 'accepted'],
  call: () => [`emails/${server.email}?tab=calls`, 'svc --sandbox emails send'],
  'email-deliveries': () => [`emails/${server.email}?tab=deliveries`, 'Attempt 1'],
  deliveries: () => ['deliveries', 'succeeded'],
  delivery: () => [`deliveries/${server.delivery}`, 'Request headers'],
  webhooks: () => ['webhooks', '/failing'],
  webhook: () => [`webhooks/${server.webhook}`, 'Last deliveries'],
  domains: () => ['domains', 'sandbox._domainkey.sandbox.test'],
  audiences: () => [`audiences/${server.audience}`, 'ada@example.test'],
  templates: () => ['templates/welcome', 'Variables', 'Your plan is'],
  empty: () => ['mailbox?organization=Lovelace', 'The mailbox is empty'],
  unknown: () => ['mailbx', 'The address names a view'],
  due: () => ['due', /^in \d+ years/],
  requests: () => ['requests?q=emails.send', 'POST /api/v1/emails'],
  request: () => [`requests/${server.request}`, 'Request body'],
  faults: () => ['faults', 'respond with 503'],
  clock: () => ['clock', 'Due next'],
  keys: () => ['keys', 'mk_test_sandbox'],
};

/** Each with its view, and the buttons that lead to it. */
const DIALOGS = {
  'a fault of requests': [VIEWS.faults, 'Add fault'],
  'a fault of SMTP': [VIEWS.faults, 'Add fault', 'SMTP sessions'],
  'a new key': [VIEWS.keys, 'Create key'],
  'a new template': [VIEWS.templates, 'New template'],
  'a release': [VIEWS.message, 'Release…'],
  'an advance of the clock': [VIEWS.clock, '1d'],
  'a deletion': [VIEWS.mailbox, 'Delete all messages'],
};

async function checkAccessibility(session, name) {
  // The page's policy forbids scripts of others; the debugger may run them.
  await session.send('Runtime.evaluate', { expression: AXE });
  const check = `axe.run(document, {resultTypes: ['violations'], iframes: false, rules: {'target-size': {enabled: true}}}).then((result) => JSON.stringify(
    result.violations.map((one) => [one.id, ...one.nodes.map((node) => node.html)])))`;
  const result = await session.send('Runtime.evaluate', { expression: check, awaitPromise: true, returnByValue: true });
  assert.equal(result.result.value, '[]', name);
}

for (const [width, scheme] of [[1440, 'light'], [1024, 'dark'], [768, 'light'], [390, 'dark']]) {
  test(`every view is accessible and survives a reload: ${width} px, ${scheme}`, async () => {
    const page = await open(server, 'mailbox', { width, scheme });
    const session = await page.context().newCDPSession(page);
    for (const [name, view] of Object.entries(VIEWS)) {
      const [path, text, framed] = view();
      await page.goto('about:blank');
      await page.goto(`${server.url}/#/${path}`);
      await page.getByText(text).first().waitFor({ state: 'attached' });
      await page.reload();
      await page.getByText(text).first().waitFor({ state: 'attached' });
      if (framed) await page.frameLocator('iframe').getByText(framed).waitFor();
      assert.equal(new URL(page.url()).hash, `#/${path}`, name);
      assert.notEqual(await page.getByLabel('Organization').inputValue(), '', `${name}: the organization is selected`);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `${name} is ${wider} px wider than the window`);
      const cut = await page.evaluate(() => [...document.querySelectorAll('.table-box, .detail-head, .detail-bar, .detail-body, .split-detail')].map((box) => box.scrollWidth - box.clientWidth));
      assert.ok(cut.every((pixels) => pixels <= 0), `${name} has something that is cut off: ${cut} px`);
      await checkAccessibility(session, name);
    }
    for (const [name, [view, ...buttons]] of Object.entries(DIALOGS)) {
      await page.goto('about:blank');
      await page.goto(`${server.url}/#/${view()[0]}`);
      for (const button of buttons) await page.getByRole('button', { name: button, exact: true }).click();
      await page.getByRole('dialog').waitFor();
      const wider = await page.evaluate(() => { const dialog = document.querySelector('dialog'); return dialog.scrollWidth - dialog.clientWidth; });
      assert.ok(wider <= 0, `${name} is ${wider} px wider than its dialog`);
      await checkAccessibility(session, name);
    }
    await close(page);
  });
}

test('a new message, email, delivery and request appear without a reload', async () => {
  const pages = [];
  for (const view of ['mailbox', 'emails', 'requests', 'deliveries']) pages.push([view, await open(server, view)]);
  for (const [, page] of pages) await page.getByText('Live', { exact: true }).waitFor();
  await call(server, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'fresh@example.test', subject: 'Fresh mail', text: 'x' });
  const newest = { mailbox: 'Fresh mail', emails: 'Fresh mail', requests: 'emails.send', deliveries: 'email.delivered' };
  for (const [view, page] of pages) {
    await page.locator('[role=listitem]').first().getByText(newest[view]).waitFor();
    await close(page);
  }
});

// A browser has six connections to a server over HTTP/1.1.
test('seven tabs show what happens, and the others go on when the first one is closed', async () => {
  const page = await open(server, 'mailbox');
  const tabs = [page];
  for (let more = 0; more < 6; more += 1) {
    const tab = await page.context().newPage();
    await tab.goto(`${server.url}/#/mailbox`);
    tabs.push(tab);
  }
  for (const subject of ['To every tab', 'To those that are left']) {
    await call(server, 'POST', '/api/v1/emails', { ...welcome, subject });
    for (const tab of tabs) await tab.getByText(subject).first().waitFor();
    await tabs.shift().close();
  }
  assert.deepEqual(page.problems, []);
  await tabs[0].context().close();
});

test('a list of all messages keeps few rows in the document', async () => {
  const page = await open(server, 'mailbox');
  const list = page.locator('.list');
  await page.getByText('Order 499').first().waitFor();
  await until(async () => {
    await list.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    return (await page.getByText('Order 1', { exact: true }).count()) > 0;
  }, 'the oldest message is shown');
  assert.ok((await page.locator('[role=listitem]').count()) < 60);
  await close(page);
});

test('search words are those of the interface, and are part of the URL', async () => {
  const page = await open(server, 'emails');
  await page.getByText('Order 499').waitFor();
  await page.getByLabel('Search').fill('address:user123@example.test');
  await page.getByText('Order 123').waitFor();
  await until(async () => (await page.locator('[role=listitem]').count()) === 1, 'one email is left');
  await page.reload();
  await page.getByText('Order 123').waitFor();
  assert.equal(await page.locator('[role=listitem]').count(), 1);
  await page.getByLabel('Status').selectOption('bounced');
  await page.getByText('No email matches').waitFor();
  await close(page);
});

test('the keyboard is enough', async () => {
  const page = await open(server, 'mailbox');
  await page.getByText('Order 499').first().waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.waitForURL(/#\/mailbox\/msg_/);
  const second = await page.evaluate(() => document.activeElement?.getAttribute('data-id'));
  await page.waitForURL(new RegExp(second));
  await page.keyboard.press('k');
  await page.waitForURL((url) => !url.href.includes(second));
  await page.keyboard.press('Escape');
  await page.waitForURL(/#\/mailbox$/);
  await page.keyboard.press('Enter');
  await page.waitForURL(/#\/mailbox\/msg_/);
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'search');
  await page.keyboard.type('Order 77');
  await page.getByText('Order 77', { exact: true }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor({ state: 'detached' });
  await page.keyboard.press('Control+k');
  await page.getByRole('combobox', { name: 'Command or ID' }).waitFor();
  await page.keyboard.type('go faults');
  await page.keyboard.press('Enter');
  await page.waitForURL(/#\/faults/);
  await close(page);
});

test('an open is simulated, and a delivery repeated', async () => {
  const sent = await call(server, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'open@example.test', subject: 'To open', text: 'x' });
  await call(server, 'GET', '/_sandbox/messages/wait?to=open@example.test');
  const page = await open(server, `emails/${sent.id}`);
  await page.getByRole('button', { name: 'Open', exact: true }).click();
  await page.locator('.timeline').getByText('opened').waitFor();
  await page.getByRole('tab', { name: /Deliveries/ }).click();
  await page.getByText('email.opened').first().waitFor();
  const delivered = page.locator('.card').filter({ hasText: '/working' }).first();
  await delivered.getByRole('button', { name: 'Replay' }).click();
  await delivered.getByText('Attempt 2').waitFor();
  await close(page);
});

test('a domain is added, published and verified', async () => {
  const page = await open(server, 'domains');
  await page.getByRole('button', { name: 'Add domain' }).click();
  await page.getByLabel('Name').fill('not a domain');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Name').fill('page.test');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  const card = page.getByRole('region', { name: 'page.test' });
  await card.getByText('not verified').waitFor();
  await card.getByRole('button', { name: 'Publish' }).click();
  await card.getByText('verified', { exact: true }).waitFor();
  await close(page);
});

test('domains and audiences are shown without a trace, whatever the compatibility settings are', async () => {
  const own = await start(['--set', 'key-header=X-Api-Key', '--set', 'list-items=data', '--set', 'error-format=flat']);
  const page = await open(own, 'domains');
  await page.getByRole('region', { name: 'sandbox.test' }).waitFor();
  await page.getByRole('link', { name: 'Audiences' }).click();
  await page.getByText('No audience', { exact: true }).waitFor();
  assert.deepEqual((await call(own, 'GET', '/_sandbox/requests')).data, []);
  await page.getByRole('button', { name: 'New audience' }).click();
  await page.getByLabel('Name').fill('Readers');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('link', { name: /Readers/ }).click();
  await page.getByText('The audience has no contacts.').waitFor();
  const requests = (await call(own, 'GET', '/_sandbox/requests')).data;
  assert.deepEqual(requests.map((one) => one.operation), ['audiences.create']);
  await close(page);
});

test('faults, templates, keys, contacts, the clock and organizations are managed', async () => {
  const own = await start([]);
  const page = await open(own, 'faults');
  await page.getByText('No fault').waitFor();
  await page.getByRole('button', { name: 'Add fault' }).click();
  await page.getByLabel('Operation').selectOption('emails.get');
  await page.getByRole('spinbutton', { name: 'Status' }).fill('503');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('emails.get: respond with 503').waitFor();
  await fetch(`${own.url}/api/v1/emails/eml_1`, { headers: { authorization: `Bearer ${KEY}` } });
  await page.getByText('It hit 1 request.').waitFor();
  await page.getByRole('button', { name: 'Remove all' }).click();
  await page.getByText('No fault').waitFor();

  await page.getByRole('button', { name: 'Add fault' }).click();
  await page.getByRole('button', { name: 'SMTP sessions' }).click();
  await page.getByLabel('Step').selectOption('rcpt');
  await page.getByRole('textbox', { name: 'Recipient' }).fill('*@slow.test');
  await page.getByLabel('Share').fill('0.5');
  await page.getByRole('spinbutton', { name: 'Status' }).fill('452');
  await page.getByRole('textbox', { name: /^Text/ }).fill('later');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('SMTP rcpt: 50 %, to *@slow.test, respond with 452').waitFor();
  await page.getByRole('button', { name: 'Add fault' }).click();
  await page.getByLabel('Greylist').check();
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('SMTP rcpt: greylist').waitFor();
  const faults = await call(own, 'GET', '/_sandbox/faults');
  assert.deepEqual(faults.map(({ smtp, to, share, status, body, greylist }) => ({ smtp, to, share, status, body, greylist })), [
    { smtp: 'rcpt', to: '*@slow.test', share: 0.5, status: 452, body: 'later', greylist: undefined },
    { smtp: 'rcpt', to: undefined, share: undefined, status: undefined, body: undefined, greylist: true },
  ]);
  await page.getByRole('button', { name: 'Remove all' }).click();
  await page.getByText('No fault').waitFor();

  await page.getByRole('link', { name: 'Templates' }).click();
  await page.getByRole('button', { name: 'New template' }).click();
  await page.getByLabel('ID').fill('hello');
  await page.getByLabel('HTML').fill('<b>Hello {{ name }}</b>');
  await page.getByRole('button', { name: 'Save' }).click();
  const preview = page.frameLocator('iframe').locator('b');
  await preview.getByText('Hello name').waitFor();
  const variables = page.getByLabel('Variables');
  await variables.fill('{"name": "Ada & Grace"}');
  await preview.getByText('Hello Ada & Grace').waitFor();
  await variables.fill('{"name": ');
  await page.getByRole('alert').getByText('The variables are not JSON').waitFor();
  await variables.fill('{}');
  await page.getByRole('alert').getByText('name has no value').waitFor();
  await variables.fill('{"name": "Ada"}');
  await preview.getByText('Hello Ada').waitFor();
  await page.reload();
  await preview.getByText('Hello Ada').waitFor();
  await page.getByRole('tab', { name: 'Source' }).click();
  await page.getByText('<b>Hello {{ name }}</b>').waitFor();

  await page.getByRole('link', { name: 'Keys' }).click();
  await page.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  const key = await page.getByLabel('Key', { exact: true }).textContent();
  assert.match(key, /^mk_test_/);
  assert.ok(!page.url().includes(key));
  await page.keyboard.press('Escape');

  await page.getByRole('link', { name: 'Audiences' }).click();
  await page.getByRole('button', { name: 'New audience' }).click();
  await page.getByLabel('Name').fill('Readers');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('link', { name: /Readers/ }).click();
  await page.getByRole('button', { name: 'Add contact' }).click();
  await page.getByLabel('Address').fill('ada@example.test');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('cell', { name: 'ada@example.test', exact: true }).waitFor();

  await page.getByRole('link', { name: 'Clock' }).click();
  await page.getByRole('button', { name: 'Freeze' }).click();
  await page.getByText('frozen', { exact: true }).waitFor();
  const before = (await call(own, 'GET', '/_sandbox/clock')).now;
  await page.getByRole('button', { name: '1d' }).click();
  await page.getByRole('dialog', { name: 'Advance the clock by 1d?' }).getByRole('button', { name: 'Advance' }).click();
  await page.getByText('advanced by 1d').waitFor();
  assert.ok(Date.parse((await call(own, 'GET', '/_sandbox/clock')).now) - Date.parse(before) >= 86_400_000);

  await page.getByLabel('Organization').selectOption('new');
  await page.getByLabel('Name').fill('Lovelace');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.waitForURL(/organization=org_/);
  await page.getByRole('link', { name: 'Templates' }).click();
  await page.getByText('No template', { exact: true }).waitFor();
  await page.getByLabel('Organization').selectOption({ label: 'Sandbox' });
  await page.getByRole('link', { name: /hello/ }).waitFor();

  await page.getByRole('button', { name: 'Empty Sandbox…' }).click();
  await page.getByRole('button', { name: 'Delete everything' }).click();
  await page.getByText('No template', { exact: true }).waitFor();
  await close(page);
});

test('a public server asks for its control token once', async () => {
  const own = await start(['--network', 'public']);
  await call(own, 'POST', '/_sandbox/organizations', { name: 'Lovelace' });
  const page = await open(own, 'clock');
  await page.getByLabel('Control token').fill('wrong');
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByText('This is not the control token').waitFor();
  await page.getByLabel('Control token').fill(own.token);
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('heading', { name: 'Due next' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Due next' }).waitFor();
  await page.getByText('Live', { exact: true }).waitFor();
  assert.ok(!page.url().includes(own.token));
  await close(page);
});
