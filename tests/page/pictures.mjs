// Makes the pictures of `docs/guides/page.md` in the folder that the argument names. With the program
// `pngquant`, they are small.

import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { call, open, otherHost, start, until } from './support.mjs';

const [folder] = process.argv.slice(2);
const server = await start([]);
const other = await otherHost();
const application = other.url.replace('http://', '');

const send = (to, subject, text, more = {}) => call(server, 'POST', '/api/v1/emails', { from: 'Shop <hello@sandbox.test>', to, subject, text, ...more });
const webhook = (path, events) => call(server, 'POST', '/api/v1/webhooks', { url: other.url + path, events });

const SHIPPED = `<!doctype html><html lang="en"><body style="margin:0;background:#f3f4f8;font-family:system-ui,sans-serif">
  <div style="max-width:440px;margin:24px auto;padding:28px;background:#fff;border-radius:12px">
  <h1 style="font-size:22px">Your order is on its way</h1><p>Hello Grace, parcel 1042 arrives on Tuesday.</p>
  <p>Your code at the parcel station:</p><p style="font-size:30px;letter-spacing:6px;font-weight:700;color:#4f46e5">493817</p>
  <p><a style="display:inline-block;padding:12px 20px;background:#4f46e5;color:#fff;border-radius:8px;text-decoration:none"
  href="https://shop.example/orders/1042">Follow the parcel</a></p></div></body></html>`;

await webhook('/working', ['email.delivered', 'email.bounced']);
await webhook('/bounces', ['email.bounced']);
const paused = await webhook('/orders', ['email.delivered']);
await call(server, 'PATCH', `/api/v1/webhooks/${paused.id}`, { active: false });
const people = [['Ada Lovelace <ada@example.test>', 'Welcome to the shop', 'Hello Ada, thank you for your registration. Please confirm your address.'],
  ['dana@example.test', 'ברוכה הבאה לחנות', 'שלום דנה, תודה שנרשמת. הקוד שלך: 771204'], ['ahmad@example.test', 'مرحبا بك في المتجر', 'مرحبا أحمد، شكرا لتسجيلك. رمز التحقق: 482913'],
  ['bounced@example.test', 'Your invoice 1041', 'Hello Bob, your invoice is attached.'], ['linus@example.test', 'Sign in to the shop', 'Your code is 118 302. It is valid for ten minutes.'],
  ['alan@example.test', 'Your invoice 1040', 'Hello Alan, your invoice is attached.']];
for (const [to, subject, text] of people) {
  const attachments = /invoice/.test(subject) ? [{ filename: 'invoice.pdf', content: btoa('%PDF-1.4') }] : [];
  await send(to, subject, text, { attachments });
}
const shipped = await send('Grace Hopper <grace@example.test>', 'Your order 1042 is on its way', 'Hello Grace, parcel 1042 arrives on Tuesday.', { html: SHIPPED, tags: { kind: 'shipping' } });
const message = (await call(server, 'GET', '/_sandbox/messages/wait?to=grace@example.test')).id;
await until(async () => (await call(server, 'GET', '/_sandbox/deliveries?state=delivered')).data.length === 8, 'the webhooks were called');
await webhook('/new', ['email.delivered']);
await call(server, 'POST', '/api/v1/domains', { name: 'shop.test' });
await call(server, 'POST', '/_sandbox/dns/shop.test/publish', { records: ['mx', 'spf', 'dkim'] });

mkdirSync(folder, { recursive: true });
const page = await open(server, 'mailbox', { width: 1200 });
const picture = async (name, path, prepare = async () => {}) => {
  await page.goto(`${server.url}/#/${path}`);
  await page.locator('.list-item, .card').first().waitFor();
  await prepare();
  if (name !== 'domains') await page.locator('.toast').waitFor({ state: 'detached' });
  // The addresses of the test's own servers mean nothing to a reader.
  await page.evaluate(([from, to]) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(from, to);
  }, [application, '127.0.0.1:3000']);
  const file = `${folder}/${name}.png`;
  await page.screenshot({ path: file });
  spawnSync('pngquant', ['--force', '--output', file, file]);
};
await page.setViewportSize({ width: 1200, height: 700 });
await picture('mailbox', `mailbox/${message}`, () => page.frameLocator('iframe').getByText('Follow the parcel').waitFor());
await picture('webhooks', `webhooks/${(await call(server, 'GET', '/_sandbox/webhooks'))[0].id}`, () => page.getByRole('cell', { name: 'delivered' }).first().waitFor());
await picture('reasons', `emails/${shipped.id}?tab=deliveries`, async () => {
  await page.locator('.reasons').waitFor();
  await page.locator('details[open] > summary').click();
});
await picture('domains', 'domains', async () => {
  await page.getByRole('region', { name: 'sandbox.test' }).evaluate((card) => card.remove());
  await page.getByRole('button', { name: 'Verify' }).click();
  await page.getByText('The check failed').waitFor();
});
await call(server, 'POST', '/_sandbox/clock', { freeze: true });
const later = await send('ada@example.test', 'How do you like your order?', 'Hello Ada', { scheduledAt: '2027-01-04T09:00:00Z' });
await picture('scheduled', `emails/${later.id}`, async () => {
  await page.getByText('The clock is frozen').waitFor();
  await page.getByRole('button', { name: 'Send now' }).waitFor();
});
process.exit(0);
