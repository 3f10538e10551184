// What a hostile email, or a hostile web page in the same browser, can do: nothing. The advisories
// of Mailpit, a similar program, are each a test here or in reference-server/tests/it/page.rs.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { call, close, open, otherHost, png, start, until } from './support.mjs';

let server, other;

before(async () => {
  server = await start([]);
  other = await otherHost();
  await call(server, 'POST', '/api/v1/emails', {
    from: 'hello@sandbox.test', to: 'mallory@example.test', subject: 'Hostile', text: `x ${other.url}/text-link`, html: hostile(other.url),
    attachments: [{ filename: 'page.html', content: btoa('<script>parent.stolen = 1</script>'), contentType: 'text/html' }],
  });
  server.message = (await call(server, 'GET', '/_sandbox/messages/wait?to=mallory@example.test')).id;
});

const hostile = (url) => `<html><head><meta http-equiv="refresh" content="0; url=${url}/refresh">
  <link rel="preconnect" href="${url}"><LINK rel=dns-prefetch href="${url}"><link/rel="preconnect"href="${url}/">
  <link rel="stylesheet" href="${url}/style.css"><style>@import "${url}/import.css"; @font-face { font-family: x; src: url(${url}/font) } p { font-family: x }</style>
  <script>document.title = 'stolen'; parent.stolen = 1; fetch('${url}/script')</script></head>
  <body onload="fetch('${url}/onload')" style="background: url(${url}/background)"><p>Visible text</p>
  <img src="${url}/image" onerror="parent.stolen = 2"><iframe src="${url}/frame"></iframe><form action="${url}/form"><button>Send</button></form>
  <object data="${url}/object"></object><video src="${url}/video" poster="${url}/poster"></video>
  <a href="javascript:parent.stolen = 3">Click</a><a href="${url}/link">Link</a></body></html>`;

test('the HTML of an email runs nothing, and loads nothing until it is asked for', async () => {
  other.hits.length = 0;
  const connections = other.connections.count;
  const page = await open(server, `mailbox/${server.message}`);
  const frame = page.frameLocator('iframe[title^="HTML of"]');
  await frame.getByText('Visible text').waitFor();
  await page.getByText('Remote content is blocked').waitFor();
  // Neither the list of links nor the checks look at what the email refers to.
  for (const [tab, text] of [['Links and codes', '/link'], ['Attachments', 'page.html'], ['Checks', 'Remote content'], ['Compatibility', '<video> element'], ['Source', 'MIME-Version']]) {
    await page.getByRole('tab', { name: tab }).click();
    await page.getByRole('tabpanel').getByText(text).first().waitFor();
  }
  // A message that arrives later shows that nothing is still on its way.
  await call(server, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'later@example.test', subject: 'Later', text: 'x' });
  await page.getByText('Later').first().waitFor();
  assert.deepEqual(other.hits, []);
  assert.equal(other.connections.count, connections);
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  assert.notEqual(await page.title(), 'stolen');
  await page.getByRole('tab', { name: 'HTML', exact: true }).click();
  await frame.getByText('Visible text').waitFor();
  assert.equal(await page.locator('iframe').getAttribute('sandbox'), 'allow-popups allow-popups-to-escape-sandbox');
  assert.deepEqual(page.problems, []);

  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.getByText('Remote content is shown').waitFor();
  await until(() => other.hits.includes('/image'), 'the image is loaded');
  assert.deepEqual(other.hits.filter((url) => ['/script', '/onload', '/frame', '/refresh', '/form', '/object'].includes(url)), []);
  assert.equal(await page.evaluate(() => window.stolen), undefined);
  await page.context().close();
});

test('an ID in a link does not become another path', async () => {
  const delivery = { id: '../reset#', event: 'email.sent', state: 'failed', attempts: [], body: '{}' };
  await call(server, 'POST', '/api/v1/emails', {
    from: 'hello@sandbox.test', to: 'path@example.test', subject: 'Path', text: 'x',
    attachments: [{ filename: 'delivery.json', content: btoa(JSON.stringify(delivery)), contentType: 'application/json' }],
  });
  const { id } = await call(server, 'GET', '/_sandbox/messages/wait?to=path@example.test');
  const page = await open(server, 'mailbox');
  const asked = [];
  page.on('request', (request) => asked.push(new URL(request.url()).pathname));
  for (const link of [`deliveries/..%2Fmessages%2F${id}%2Fattachments%2F1`, 'mailbox/..%2Flease', 'requests/%252e%252e%2Ffaults', 'emails/..']) {
    await page.goto(`${server.url}/#/${link}`);
    await page.getByText('not an ID').first().waitFor();
  }
  assert.deepEqual(asked.filter((path) => /attachments|lease|faults|story/.test(path)), []);
  await page.context().close();
});

test('a page of another site reads nothing, not even the events', async () => {
  const evil = await otherHost('<!doctype html><title>Evil</title>');
  const page = await open(server, 'mailbox');
  await page.goto(evil.url);
  const results = await page.evaluate(async (url) => {
    const ends = (target, events) => new Promise((done) => events.forEach((name) => target.addEventListener(name, () => done(name))));
    const frame = document.createElement('iframe');
    frame.src = url;
    document.body.append(frame);
    const results = { frame: await ends(frame, ['load']).then(() => frame.contentDocument === null) };
    results.events = await ends(new EventSource(`${url}/_sandbox/events`), ['open', 'message', 'ready', 'error']);
    results.socket = await ends(new WebSocket(`${url.replace('http', 'ws')}/_sandbox/events`), ['open', 'error']);
    for (const [name, path, init] of [
      ['read', '/_sandbox/messages', {}],
      ['preflight', '/_sandbox/reset', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }],
      ['preview', '/page/preview', { method: 'POST', headers: { 'content-type': 'text/plain' }, body: 'html=x' }],
    ]) results[name] = await fetch(url + path, init).then((response) => response.status, () => 'failed');
    // Such a request is sent, but its response cannot be read.
    await fetch(`${url}/_sandbox/reset`, { method: 'POST', mode: 'no-cors', body: '{}' }).catch(() => {});
    return results;
  }, server.url);
  assert.deepEqual(results, { frame: true, events: 'error', socket: 'error', read: 'failed', preflight: 'failed', preview: 'failed' });
  await call(server, 'GET', `/_sandbox/messages/${server.message}`);
  await page.context().close();
});

test('the server fetches no URL for anyone', async () => {
  other.hits.length = 0;
  const target = encodeURIComponent(`${other.url}/internal`);
  for (const path of [`/proxy?data=${btoa(`${server.message}:${other.url}/internal`)}`, `/proxy?url=${target}`, `/screenshot?url=${target}`,
    `/_sandbox/proxy?url=${target}`, `/page/proxy?url=${target}`, `/_sandbox/messages/${server.message}/link-check?follow=true`, `/_sandbox/messages/${server.message}/html-check`]) {
    const response = await fetch(server.url + path);
    assert.equal(response.status, 404, path);
  }
  // The frame's document holds what it was sent, and its HTML is not read.
  await fetch(`${server.url}/page/preview?url=${target}`, { method: 'POST', headers: { 'content-type': 'text/plain', origin: server.url }, body: `html=<img src="${other.url}/internal">` });
  const description = await (await fetch(`${server.url}/openapi/control.json`)).json();
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const parameter of methods.get?.parameters ?? []) assert.ok(!/^(url|uri|href|src|target)$/i.test(parameter.name), `${path} takes ${parameter.name}`);
  }
  assert.deepEqual(other.hits, []);
});

test('what is unfinished and long stops nothing', async () => {
  const html = `<p>Above</p>${'<a '.repeat(150_000)}${'<img'.repeat(100_000)} src=${' '.repeat(300_000)}>`;
  await call(server, 'POST', '/api/v1/emails', { from: 'hello@sandbox.test', to: 'long@example.test', subject: 'Long', html });
  const { id } = await call(server, 'GET', '/_sandbox/messages/wait?to=long@example.test');
  const page = await open(server, `mailbox/${id}`);
  await page.frameLocator('iframe').getByText('Above').waitFor();
  for (const [tab, text] of [['Checks', 'HTML size'], ['Compatibility', 'of the email were compared']]) {
    await page.getByRole('tab', { name: tab }).click();
    await page.getByText(text).waitFor();
  }
  await close(page);
});

test('an image of 30 000 × 30 000 pixels does not stop the page', async () => {
  // A few kilobytes each, and gigabytes when they are decoded. A browser may refuse the larger one.
  const attachments = [30_000, 20_000].map((side) => ({ filename: `${side}.png`, content: png(side, 1, Buffer.alloc(side * (1 + Math.ceil(side / 8)))), contentType: 'image/png', contentId: `huge${side}@x` }));
  await call(server, 'POST', '/api/v1/emails', {
    from: 'hello@sandbox.test', to: 'huge@example.test', subject: 'Huge', html: '<p>Above</p><img src="cid:huge30000@x" alt=""><img src="cid:huge20000@x" alt="">', attachments,
  });
  const { id } = await call(server, 'GET', '/_sandbox/messages/wait?to=huge@example.test');
  const page = await open(server, `mailbox/${id}?tab=attachments`);
  await page.getByText('20000 × 20000 pixels: too large to preview').waitFor();
  await page.getByText(/30000 × 30000 pixels|cannot show the image/).waitFor();
  assert.equal(await page.locator('.tile img').count(), 0);
  await page.getByRole('tab', { name: 'HTML', exact: true }).click();
  await page.frameLocator('iframe').getByText('Above').waitFor();
  await page.getByRole('tab', { name: 'Source' }).click();
  await page.getByText('MIME-Version').first().waitFor();
  await close(page);
});

test('embedded images are found by their whole id, in any spelling', async () => {
  const dot = png(1, 1, Buffer.alloc(2)).toString('base64');
  const ids = ['img1', 'img10', 'logo', 'logo-dark', 'a b@x', 'pct'];
  const types = ['image/png', 'image/x-png', 'image/PNG', 'application/octet-stream; name=a.png', 'image/png', 'image/png'];
  const references = ['cid:img1', 'cid:img10', 'CID:logo', '&#99;id:logo-dark', 'cid:a%20b@x', 'cid:%70ct'];
  const html = '<style>div > p { background: url("cid:img10") }</style>'
    + references.map((one) => `<img src="${one}" alt="cid:img1">`).join('')
    + '<div><p style="background: url(cid:img1)">url(cid:img1) <b>src="cid:img1"</b></p></div>';
  const parts = ids.map((id, n) => `--r\r\nContent-Type: ${types[n]}\r\nContent-ID: <${id}>\r\nContent-Transfer-Encoding: base64\r\n\r\n${dot}\r\n`);
  const source = `From: a@b.test\r\nSubject: Embedded\r\nContent-Type: multipart/related; boundary=r\r\n\r\n--r\r\nContent-Type: text/html\r\n\r\n${html}\r\n${parts.join('')}--r--\r\n`;
  const response = await fetch(`${server.url}/_sandbox/inbound?to=cid@sandbox.test`, { method: 'POST', headers: { 'content-type': 'message/rfc822' }, body: source });
  assert.equal(response.status, 202);
  const { messages: [{ id }] } = await response.json();
  const page = await open(server, `mailbox/${id}`);
  const frame = page.frameLocator('iframe');
  // Texts stay as they are.
  await frame.getByText('url(cid:img1) src="cid:img1"').waitFor();
  const sources = await frame.locator('img').evaluateAll((images) => images.map((image) => image.getAttribute('src').slice(0, 15)));
  assert.deepEqual(sources, ids.map(() => 'data:image/png;'));
  assert.match(await frame.locator('p').getAttribute('style'), /url\(data:image\/png/);
  assert.match(await frame.locator('style').innerHTML(), /^div > p \{ background: url\(data:image\/png/);
  assert.equal(await frame.locator('img[alt="cid:img1"]').count(), ids.length);
  await close(page);
});
