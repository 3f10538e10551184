// The page in a real browser, against a server with mail, failures, retries and schedules.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';

const SVC = process.env.SVC_PAGE_SVC;
const CHROMIUM = process.env.SVC_PAGE_CHROMIUM ?? '/usr/bin/chromium';
const SCREENSHOTS = process.env.SVC_PAGE_SCREENSHOTS;
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const KEY = 'mk_test_sandbox';

let browser, server, receiver, hits;
const processes = [];

before(async () => {
  browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  server = await start([]);
  hits = [];
  // Another host: it takes webhooks, and counts what else arrives.
  receiver = createServer((request, response) => {
    if (request.method === 'GET') hits.push(request.url);
    request.resume();
    response.statusCode = request.url === '/failing' ? 503 : 200;
    response.end();
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const other = `http://127.0.0.1:${receiver.address().port}`;
  for (const path of ['/failing', '/working']) {
    await call(server, 'POST', '/api/v1/webhooks', { url: other + path, events: ['email.delivered', 'email.bounced', 'email.opened'] });
  }
  for (let sent = 0; sent < 500; sent += 100) {
    const emails = Array.from({ length: 100 }, (_, n) => email(sent + n));
    await call(server, 'POST', '/api/v1/emails/batch', { emails });
  }
  server.hostile = await call(server, 'POST', '/api/v1/emails', {
    from: 'hello@sandbox.test', to: 'mallory@example.test', subject: 'Hostile', text: 'x', html: hostile(other),
    attachments: [{ filename: 'page.html', content: btoa('<script>parent.stolen = 1</script>'), contentType: 'text/html' }],
  });
  await call(server, 'PUT', '/_sandbox/templates/welcome', { subject: 'Welcome, {{ name }}', html: '<p>Hello {{ name }}</p>', text: 'Hello' });
  const audience = await call(server, 'POST', '/api/v1/audiences', { name: 'Newsletter' });
  await call(server, 'POST', `/api/v1/audiences/${audience.id}/contacts`, { email: 'ada@example.test', topics: ['news'] });
  await call(server, 'POST', '/_sandbox/faults', { operation: 'emails.cancel', status: 503, times: 2 });
  const { id } = await call(server, 'GET', '/_sandbox/messages/wait?to=mallory@example.test');
  server.message = id;
  server.audience = audience.id;
  server.delivery = (await call(server, 'GET', '/_sandbox/deliveries')).data[0].id;
  server.request = (await call(server, 'GET', '/_sandbox/requests')).data[0].id;
});

after(async () => {
  await browser?.close();
  for (const one of processes) one.kill();
  receiver?.close();
});

const email = (n) => ({
  from: 'Shop <hello@sandbox.test>', to: n % 20 === 0 ? `bounced+${n}@example.test` : `user${n}@example.test`,
  subject: `Order ${n}`, text: `Order ${n}: your code is ${100000 + n}.`,
  html: `<h1>Order ${n}</h1><p><a href="https://shop.example/${n}">Open</a></p>`, tags: { kind: 'order' },
  ...(n % 25 === 0 && { scheduledAt: '2090-01-01T09:00:00Z' }),
});

const hostile = (other) => `<html><head><meta http-equiv="refresh" content="0; url=${other}/refresh">
  <link rel="stylesheet" href="${other}/style.css"><script>document.title = 'stolen'; parent.stolen = 1; fetch('${other}/script')</script></head>
  <body onload="fetch('${other}/onload')" style="background: url(${other}/background)"><p>Visible text</p>
  <img src="${other}/image" onerror="parent.stolen = 2"><iframe src="${other}/frame"></iframe><form action="${other}/form"><button>Send</button></form>
  <a href="javascript:parent.stolen = 3">Click</a></body></html>`;

async function start(options) {
  const child = spawn(SVC, ['sandbox', 'serve', '--addr', '127.0.0.1:0', '--in-memory', ...options], { stdio: ['ignore', 'pipe', 'ignore'] });
  processes.push(child);
  const [line] = await once(createInterface(child.stdout), 'line');
  const ready = JSON.parse(line);
  return { url: ready.http, token: ready.control_token };
}

async function call(to, method, path, body) {
  const headers = { authorization: `Bearer ${to.token ?? KEY}`, 'content-type': 'application/json' };
  const response = await fetch(to.url + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

/** A page whose errors, and whose requests to other hosts, fail the test. */
async function open(path, { width = 1280, scheme = 'light', at = server } = {}) {
  const context = await browser.newContext({ viewport: { width, height: width < 500 ? 740 : 800 }, colorScheme: scheme });
  const page = await context.newPage();
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(String(error.stack)));
  page.on('response', (response) => {
    if (new URL(response.url()).origin !== at.url) page.problems.push(`a response from ${response.url()}`);
  });
  await page.goto(`${at.url}/#/${path}`);
  return page;
}

async function close(page) {
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

const VIEWS = {
  mailbox: () => ['mailbox', 'Order 499'],
  message: () => [`mailbox/${server.message}`, 'From'],
  headers: () => [`mailbox/${server.message}?tab=headers`, 'DKIM-Signature'],
  checks: () => [`mailbox/${server.message}?tab=checks`, 'DMARC alignment'],
  attachments: () => [`mailbox/${server.message}?tab=attachments`, 'page.html'],
  source: () => [`mailbox/${server.message}?tab=source`, 'MIME-Version'],
  emails: () => ['emails', 'Order 499'],
  story: () => [`emails/${server.hostile.id}`, 'accepted'],
  call: () => [`emails/${server.hostile.id}?tab=calls`, 'svc --sandbox emails send'],
  'email-deliveries': () => [`emails/${server.hostile.id}?tab=deliveries`, 'Attempt 1'],
  deliveries: () => ['deliveries', 'succeeded'],
  delivery: () => [`deliveries/${server.delivery}`, 'Request headers'],
  domains: () => ['domains', 'sandbox._domainkey.sandbox.test'],
  audiences: () => [`audiences/${server.audience}`, 'ada@example.test'],
  templates: () => ['templates/welcome', 'Welcome, {{ name }}'],
  requests: () => ['requests?q=emails.send', 'POST /api/v1/emails'],
  request: () => [`requests/${server.request}`, 'Request body'],
  faults: () => ['faults', 'respond with 503'],
  clock: () => ['clock', 'Due next'],
  keys: () => ['keys', 'mk_test_san…'],
};

for (const [width, scheme] of SCREENSHOTS ? [[1280, 'light'], [360, 'dark'], [1280, 'dark'], [360, 'light']] : [[1280, 'light'], [360, 'dark']]) {
  test(`every view is accessible and survives a reload: ${width} px, ${scheme}`, async () => {
    const page = await open('mailbox', { width, scheme });
    const session = await page.context().newCDPSession(page);
    for (const [name, view] of Object.entries(VIEWS)) {
      const [path, text] = view();
      await page.goto('about:blank');
      await page.goto(`${server.url}/#/${path}`);
      await page.getByText(text).first().waitFor({ state: 'attached' });
      await page.reload();
      await page.getByText(text).first().waitFor({ state: 'attached' });
      assert.equal(new URL(page.url()).hash, `#/${path}`, name);
      if (SCREENSHOTS) {
        mkdirSync(SCREENSHOTS, { recursive: true });
        await page.screenshot({ path: `${SCREENSHOTS}/${name}-${width}-${scheme}.png` });
      }
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `${name} is ${wider} px wider than the window`);
      // The page's policy forbids scripts of others; the debugger may run them.
      await session.send('Runtime.evaluate', { expression: AXE });
      const check = `axe.run(document, {resultTypes: ['violations'], iframes: false}).then((result) => JSON.stringify(
        result.violations.map((one) => [one.id, ...one.nodes.map((node) => node.html)])))`;
      const result = await session.send('Runtime.evaluate', { expression: check, awaitPromise: true, returnByValue: true });
      assert.equal(result.result.value, '[]', name);
    }
    await close(page);
  });
}

test('the HTML of an email runs nothing, and loads nothing until it is asked for', async () => {
  hits.length = 0;
  const page = await open(`mailbox/${server.message}`);
  const frame = page.frameLocator('iframe[title^="HTML of"]');
  await frame.getByText('Visible text').waitFor();
  await page.getByText('Remote content is blocked').waitFor();
  // A message that arrives later shows that nothing is still on its way.
  await call(server, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'later@example.test', subject: 'Later', text: 'x' });
  await page.getByText('Later').first().waitFor();
  assert.deepEqual(hits, []);
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  assert.notEqual(await page.title(), 'stolen');
  assert.equal(await page.locator('iframe').getAttribute('sandbox'), 'allow-popups allow-popups-to-escape-sandbox');
  page.problems.length = 0;

  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.getByText('Remote content is shown').waitFor();
  await until(() => hits.includes('/image'), 'the image is loaded');
  assert.deepEqual(hits.filter((url) => ['/script', '/onload', '/frame', '/refresh', '/form'].includes(url)), []);
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  await page.context().close();
});

test('a new message, email, delivery and request appear without a reload', async () => {
  const pages = [];
  for (const view of ['mailbox', 'emails', 'requests', 'deliveries']) pages.push([view, await open(view)]);
  for (const [, page] of pages) await page.getByText('Live', { exact: true }).waitFor();
  await call(server, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'fresh@example.test', subject: 'Fresh mail', text: 'x' });
  const newest = { mailbox: 'Fresh mail', emails: 'Fresh mail', requests: 'emails.send', deliveries: 'email.delivered' };
  for (const [view, page] of pages) {
    await page.locator('[role=listitem]').first().getByText(newest[view]).waitFor();
    await close(page);
  }
});

test('a list of all messages keeps few rows in the document', async () => {
  const page = await open('mailbox');
  const list = page.locator('.list');
  await page.getByText('Order 499').waitFor();
  await until(async () => {
    await list.evaluate((element) => element.scrollTo(0, element.scrollHeight));
    return (await page.getByText('Order 1', { exact: true }).count()) > 0;
  }, 'the oldest message is shown');
  assert.ok((await page.locator('[role=listitem]').count()) < 60);
  await close(page);
});

test('search words are those of the interface, and are part of the URL', async () => {
  const page = await open('emails');
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
  const page = await open('mailbox');
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
  await page.getByText('Order 77').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Control+k');
  await page.keyboard.type('go faults');
  await page.keyboard.press('Enter');
  await page.waitForURL(/#\/faults/);
  await close(page);
});

test('an open is simulated, and a delivery repeated', async () => {
  const sent = await call(server, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'open@example.test', subject: 'To open', text: 'x' });
  await call(server, 'GET', '/_sandbox/messages/wait?to=open@example.test');
  const page = await open(`emails/${sent.id}`);
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
  const page = await open('domains');
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

test('faults, templates, keys, contacts, the clock and organizations are managed', async () => {
  const own = await start([]);
  const page = await open('faults', { at: own });
  await page.getByText('No fault').waitFor();
  await page.getByRole('button', { name: 'Add fault' }).click();
  await page.getByLabel('Operation').selectOption('emails.get');
  await page.getByRole('spinbutton', { name: 'Status' }).fill('503');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('emails.get: respond with 503').waitFor();
  await fetch(`${own.url}/api/v1/emails/eml_1`, { headers: { authorization: `Bearer ${KEY}` } });
  await page.getByText('1 request met it.').waitFor();
  await page.getByRole('button', { name: 'Remove all' }).click();
  await page.getByText('No fault').waitFor();

  await page.getByRole('link', { name: 'Templates' }).click();
  await page.getByRole('button', { name: 'New template' }).click();
  await page.getByLabel('ID').fill('hello');
  await page.getByLabel('HTML').fill('<b>Hello</b>');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.frameLocator('iframe').getByText('Hello').waitFor();

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
  const own = await start(['--public']);
  await call(own, 'POST', '/_sandbox/organizations', { name: 'Lovelace' });
  const page = await open('clock', { at: own });
  await page.getByLabel('Control token').fill('wrong');
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByText('This is not the control token').waitFor();
  await page.getByLabel('Control token').fill(own.token);
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByText('Due next').waitFor();
  await page.reload();
  await page.getByText('Due next').waitFor();
  await page.getByText('Live', { exact: true }).waitFor();
  assert.ok(!page.url().includes(own.token));
  await close(page);
});

test('the page is small', async () => {
  const script = await fetch(`${server.url}/page/app.js`);
  assert.equal(script.headers.get('content-encoding'), 'gzip');
  const page = await open('mailbox');
  const session = await page.context().newCDPSession(page);
  let bytes = 0;
  const own = new Set();
  session.on('Network.responseReceived', (event) => /\/($|page\/)/.test(new URL(event.response.url).pathname) && own.add(event.requestId));
  session.on('Network.loadingFinished', (event) => own.has(event.requestId) && (bytes += event.encodedDataLength));
  await session.send('Network.enable');
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  await page.reload();
  await page.getByText('Order 499').waitFor();
  assert.ok(bytes > 10_000 && bytes < 120 * 1024, `${bytes} bytes`);
  await close(page);
});

async function until(condition, what) {
  const end = Date.now() + 30_000;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `waited 30 s until ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}
