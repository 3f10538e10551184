// A mailbox of 10 000 messages: it scrolls, starts and stays current like a small one.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { call, close, open, start, until } from './support.mjs';

const MESSAGES = 10_000;
const RECIPIENTS = 50;

let server, small;

before(async () => {
  server = await fill(MESSAGES);
  small = await fill(100);
});

/** A server with this many messages. */
async function fill(messages) {
  const own = await start([]);
  const count = messages / RECIPIENTS;
  for (let sent = 0; sent < count; sent += 100) {
    const emails = Array.from({ length: Math.min(100, count - sent) }, (_, n) => ({
      from: 'Shop <hello@sandbox.test>', subject: `Order ${sent + n}`, text: 'x', html: '<p>x</p>',
      to: Array.from({ length: RECIPIENTS }, (_, to) => `user${to}@example.test`),
    }));
    await call(own, 'POST', '/api/v1/emails/batch', { emails });
  }
  const waiting = async () => {
    const lists = await Promise.all(['queued', 'sending', 'sent'].map((status) => call(own, 'GET', `/_sandbox/emails?limit=1&status=${status}`)));
    return lists.some((list) => list.data.length > 0);
  };
  await until(async () => !(await waiting()), `${messages} messages are delivered`);
  return own;
}

test('every row of 10 000 is shown while scrolling, and few are in the document', async () => {
  const page = await open(server, 'mailbox');
  await page.locator('[role=listitem]').first().waitFor();
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const before = await metrics(session);
  const found = await page.evaluate(async (total) => {
    const list = document.querySelector('.list');
    const seen = new Set();
    let most = 0;
    let steps = 0;
    const end = Date.now() + 240_000;
    while (seen.size < total && Date.now() < end) {
      const rows = [...list.querySelectorAll('.row')];
      most = Math.max(most, rows.length);
      for (const row of rows) seen.add(row.dataset.id);
      const { top, bottom } = list.getBoundingClientRect();
      const covered = rows.length > 0 && rows[0].getBoundingClientRect().top <= top + 1 && rows.at(-1).getBoundingClientRect().bottom >= bottom - 1;
      if (covered) {
        list.scrollTop += list.clientHeight;
        steps += 1;
      }
      await new Promise(requestAnimationFrame);
    }
    return { seen: seen.size, most, steps, left: list.scrollHeight - list.clientHeight - list.scrollTop };
  }, MESSAGES);
  const after = await metrics(session);
  console.log(`scrolled through ${found.seen} rows in ${found.steps} steps: ${((after.TaskDuration - before.TaskDuration) * 1000 / found.steps).toFixed(1)} ms of the main thread each`);
  assert.equal(found.seen, MESSAGES);
  assert.ok(found.most < 60, `${found.most} rows were in the document`);
  // Back at the top, the first row is there at once.
  await page.locator('.list').evaluate((list) => list.scrollTo(0, 0));
  await page.locator('.row').first().waitFor();
  assert.ok((await page.locator('.row').count()) < 60);
  await close(page);
});

test('j and k go on where the first page of the list ends', async () => {
  const first = await call(server, 'GET', '/_sandbox/messages?limit=100');
  const second = await call(server, 'GET', `/_sandbox/messages?limit=100&cursor=${encodeURIComponent(first.next)}`);
  const ids = [...first.data, ...second.data].map((one) => one.id);
  const page = await open(server, 'mailbox');
  await page.locator('[role=listitem]').first().waitFor();
  const focused = () => page.evaluate(() => document.activeElement?.dataset.id);
  for (let n = 0; n < 120; n += 1) {
    await page.keyboard.press('j');
    // At the end of what is loaded, the next page may be on its way.
    if (n > 95) await until(async () => {
      if ((await focused()) === ids[n]) return true;
      await page.keyboard.press('j');
      return false;
    }, `row ${n} has the focus`);
  }
  assert.equal(await focused(), ids[119]);
  for (let n = 118; n >= 90; n -= 1) await page.keyboard.press('k');
  assert.equal(await focused(), ids[90]);
  await page.waitForURL(new RegExp(ids[90]));

  // A reload shows the same message, and its row.
  await page.reload();
  await page.locator(`.row[data-id="${ids[90]}"][aria-current]`).waitFor();
  assert.ok(await page.locator(`.row[data-id="${ids[90]}"]`).evaluate((row) => {
    const [own, list] = [row.getBoundingClientRect(), row.closest('.list').getBoundingClientRect()];
    return own.top >= list.top && own.bottom <= list.bottom;
  }), 'the row is visible');
  await page.getByRole('heading', { name: 'Order' }).waitFor();
  await close(page);
});

test('a message that is not among the loaded ones is shown after a reload', async () => {
  let cursor = '';
  for (let n = 0; n < 30; n += 1) cursor = (await call(server, 'GET', `/_sandbox/messages?limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`)).next;
  const { id } = (await call(server, 'GET', `/_sandbox/messages?limit=1&cursor=${encodeURIComponent(cursor)}`)).data[0];
  const page = await open(server, `mailbox/${id}`);
  await page.getByRole('heading', { name: 'Order' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Order' }).waitFor();
  assert.equal(new URL(page.url()).hash, `#/mailbox/${id}`);
  await close(page);
});

test('a new message appears among 10 000 with few requests', async () => {
  const page = await open(server, 'mailbox');
  await page.getByText('Live', { exact: true }).waitFor();
  await page.locator('[role=listitem]').first().waitFor();
  const requests = [];
  page.on('request', (request) => requests.push(new URL(request.url()).pathname));
  await page.evaluate(() => {
    window.shown = new Promise((done) => {
      new MutationObserver(() => document.body.textContent.includes('Fresh mail') && done(Date.now())).observe(document.body, { childList: true, subtree: true, characterData: true });
    });
  });
  await call(server, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'fresh@example.test', subject: 'Fresh mail', text: 'x' });
  const message = await call(server, 'GET', '/_sandbox/messages/wait?to=fresh@example.test');
  const shown = await page.evaluate(() => window.shown);
  console.log(`a new message was shown ${shown - Date.parse(message.createdAt)} ms after its delivery`);
  assert.ok(requests.filter((path) => path === '/_sandbox/messages').length <= 3, String(requests));
  await close(page);
});

test('the page with 10 000 messages starts like one with few, and is small', async () => {
  const large = await startOf(server);
  const few = await startOf(small);
  const ms = (seconds) => Math.round(seconds * 1000);
  console.log(`main thread until the list is shown: ${ms(large.time)} ms with ${MESSAGES} messages, ${ms(few.time)} ms with 100; ${large.bytes} bytes transferred`);
  assert.ok(large.time < 4 * few.time + 0.2, `${large.time} s, ${few.time} s`);
  assert.ok(large.bytes > 10_000 && large.bytes < 400 * 1024, `${large.bytes} bytes`);
});

/** What a first visit costs: seconds of the main thread, and bytes of the page's own files. */
async function startOf(own) {
  // The newest message has HTML, so that there is a tab for its compatibility.
  const content = '<div style="border-radius: 4px; display: flex"><video></video></div>';
  await call(own, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'html@example.test', subject: 'With HTML', html: content });
  await call(own, 'GET', '/_sandbox/messages/wait?to=html@example.test');
  const page = await open(own, 'mailbox');
  const session = await page.context().newCDPSession(page);
  await page.goto('about:blank');
  let bytes = 0;
  const files = new Set();
  session.on('Network.responseReceived', (event) => /\/($|page\/)/.test(new URL(event.response.url).pathname) && files.add(event.requestId));
  session.on('Network.loadingFinished', (event) => files.has(event.requestId) && (bytes += event.encodedDataLength));
  await session.send('Network.enable');
  await session.send('Network.setCacheDisabled', { cacheDisabled: true });
  await session.send('Performance.enable');
  // The page says itself when the list is shown: a locator would run a large script in it.
  await session.send('Page.enable');
  await session.send('Page.addScriptToEvaluateOnNewDocument', { source: `(${announceList})()` });
  const shown = page.waitForEvent('console', (message) => message.text() === 'the list is shown');
  const before = await metrics(session);
  await session.send('Page.navigate', { url: `${own.url}/#/mailbox` });
  await shown;
  const after = await metrics(session);
  // The files that are loaded later count, too.
  await page.locator('.row').first().click();
  await page.getByRole('tab', { name: 'Compatibility' }).click();
  await page.getByText('features of the email were compared').waitFor();
  await close(page);
  return { time: after.TaskDuration - before.TaskDuration, bytes };
}

/** Runs in the page. */
function announceList() {
  new MutationObserver((_, observer) => {
    if (!document.querySelector('[role=listitem]')) return;
    observer.disconnect();
    requestAnimationFrame(() => setTimeout(() => console.debug('the list is shown')));
  }).observe(document, { childList: true, subtree: true });
}

async function metrics(session) {
  const { metrics } = await session.send('Performance.getMetrics');
  return Object.fromEntries(metrics.map(({ name, value }) => [name, value]));
}
