// The page behind nginx, below a path, with the configuration of docs/guides/containers.md.

import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { call, close, open, start, until } from './support.mjs';

const guide = readFileSync(new URL('../../docs/guides/containers.md', import.meta.url), 'utf8');
const LOCATION = /^location \/mail\/ \{[^]*?^\}/m.exec(guide)[0];

const proxies = [];
after(() => proxies.forEach((one) => one.kill()));

async function freePort() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}

/** Starts nginx with this location, and waits until it listens. */
async function proxy(port, location) {
  const folder = mkdtempSync(join(tmpdir(), 'svc-nginx-'));
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((one) => `${one}_temp_path ${folder}/${one};`);
  const configuration = `daemon off; master_process off; pid ${folder}/pid; error_log stderr;
    events {} http { access_log off; ${temporary.join(' ')} server { listen 127.0.0.1:${port}; ${location} } }`;
  writeFileSync(join(folder, 'nginx.conf'), configuration);
  const child = spawn('nginx', ['-e', 'stderr', '-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: ['ignore', 'ignore', 'inherit'] });
  proxies.push(child);
  const answers = () => fetch(`http://127.0.0.1:${port}/mail/_sandbox/health`).then((response) => response.ok, () => false);
  await until(answers, 'nginx answers');
}

for (const [what, upstream] of [['leaves the path in requests', ''], ['strips the path', '/']]) {
  test(`the page works below a path of an nginx that ${what}`, async () => {
    const [port, own] = [await freePort(), await freePort()];
    const below = `http://127.0.0.1:${port}/mail`;
    const server = await start(['--addr', `127.0.0.1:${own}`, '--public-url', `${below}/`]);
    assert.equal(server.url, below);
    assert.ok(LOCATION.includes('http://sandbox:4080;'), LOCATION);
    await proxy(port, LOCATION.replace('http://sandbox:4080;', `http://127.0.0.1:${own}${upstream};`));

    const send = (subject) => call(server, 'POST', '/api/v1/emails', {
      from: 'hello@sandbox.test', to: 'ada@example.test', subject, text: 'Hello', html: `<p>Hello from ${subject}</p>`,
      attachments: [{ filename: 'a.txt', content: btoa('attached') }],
    });
    await send('First');
    const page = await open(server, 'mailbox');
    await page.locator('.list-item', { hasText: 'First' }).click();
    await page.frameLocator('iframe').getByText('Hello from First').waitFor();
    // Events arrive through the proxy: the list updates by itself.
    await send('Second');
    await page.locator('.list-item', { hasText: 'Second' }).click();
    await page.frameLocator('iframe').getByText('Hello from Second').waitFor();
    await page.getByRole('tab', { name: 'Attachments' }).click();
    const download = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Download a.txt' }).click();
    assert.equal(readFileSync(await (await download).path(), 'utf8'), 'attached');
    await page.getByRole('button', { name: 'Delete the message' }).click();
    await page.getByText('The message was deleted').waitFor();
    assert.ok(page.url().startsWith(`${below}/#/mailbox`), page.url());
    await close(page);

    // Without the slash, the browser is sent to the page; what is beside the path is not the sandbox's.
    assert.equal((await fetch(below)).url, `${below}/`);
    assert.equal((await fetch(`http://127.0.0.1:${port}/_sandbox/health`)).status, 404);
  });
}
