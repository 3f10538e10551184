// What the tests of the page share: servers, the browser, and requests.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after } from 'node:test';
import { crc32, deflateSync } from 'node:zlib';
import { chromium } from 'playwright-core';

const SVC = process.env.SVC_PAGE_SVC;
const CHROMIUM = process.env.SVC_PAGE_CHROMIUM ?? '/usr/bin/chromium';
export const KEY = 'mk_test_sandbox';

const processes = [];
const others = [];
let browser;

after(async () => {
  await browser?.close();
  for (const one of processes) one.kill();
  for (const one of others) one.close();
});
process.on('exit', () => processes.forEach((one) => one.kill()));

export async function start(options) {
  const address = options.includes('--addr') ? [] : ['--addr', '127.0.0.1:0'];
  const child = spawn(SVC, ['sandbox', 'serve', '--in-memory', ...address, ...options], { stdio: ['ignore', 'pipe', 'ignore'] });
  processes.push(child);
  const ended = once(child, 'exit').then(([code]) => { throw new Error(`svc ended with ${code}`); });
  const [line] = await Promise.race([once(createInterface(child.stdout), 'line'), ended]);
  ended.catch(() => {});
  const ready = JSON.parse(line);
  return { url: ready.http, smtp: ready.smtp, token: ready.control_token };
}

export async function call(to, method, path, body) {
  const headers = { authorization: `Bearer ${to.token ?? KEY}`, 'content-type': 'application/json' };
  const response = await fetch(to.url + path, { method, headers, body: body && JSON.stringify(body) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

export const WEBHOOKS = ['/failing', '/working'];

/** Another host: it takes webhooks, and counts what else arrives. */
export async function otherHost(content = '') {
  const hits = [];
  const host = createServer((request, response) => {
    if (!WEBHOOKS.includes(request.url)) hits.push(request.url);
    request.resume();
    response.statusCode = request.url === '/failing' ? 503 : 200;
    response.setHeader('content-type', 'text/html');
    response.end(request.method === 'GET' ? content : '');
  }).listen(0, '127.0.0.1');
  others.push(host);
  const connections = { count: 0 };
  host.on('connection', () => { connections.count += 1; });
  await once(host, 'listening');
  return { url: `http://127.0.0.1:${host.address().port}`, hits, connections };
}

/** A page whose errors, and whose requests to other hosts, fail the test. */
export async function open(at, path, { width = 1280, scheme = 'light' } = {}) {
  browser ??= await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
  const context = await browser.newContext({ viewport: { width, height: width < 500 ? 740 : 800 }, colorScheme: scheme });
  // With this variable, the page's files are those of the working tree: a change of them needs no build.
  if (process.env.SVC_PAGE_FILES) {
    await context.route(/\/page\/(?!preview)/, async (route) => {
      const { pathname } = new URL(route.request().url());
      const type = { '.js': 'text/javascript', css: 'text/css', '.svg': 'image/svg+xml', json: 'application/json' };
      const body = readFileSync(join(process.env.SVC_PAGE_FILES, pathname.split('/page/')[1]));
      await route.fulfill({ body, contentType: Object.entries(type).find(([end]) => pathname.endsWith(end))[1] });
    });
  }
  const page = await context.newPage();
  page.problems = [];
  page.on('pageerror', (error) => page.problems.push(String(error.stack)));
  page.on('response', (response) => {
    if (new URL(response.url()).origin !== new URL(at.url).origin) page.problems.push(`a response from ${response.url()}`);
  });
  await page.goto(`${at.url}/#/${path}`);
  return page;
}

export async function close(page) {
  assert.deepEqual(page.problems, []);
  await page.context().close();
}

export async function until(condition, what) {
  const end = Date.now() + 30_000;
  while (!(await condition())) {
    assert.ok(Date.now() < end, `waited 30 s until ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** A square PNG image in Base64. @param {number} bits 1 (black and white) or 8 (gray) for each pixel */
export function png(side, bits, rows) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
    const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(data.length);
    sum.writeUInt32BE(crc32(body));
    return Buffer.concat([length, body, sum]);
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(side, 0);
  header.writeUInt32BE(side, 4);
  header[8] = bits;
  const chunks = [chunk('IHDR', header), chunk('IDAT', deflateSync(rows)), chunk('IEND', Buffer.alloc(0))];
  return Buffer.concat([Buffer.from('89504e470d0a1a0a', 'hex'), ...chunks]).toString('base64');
}
