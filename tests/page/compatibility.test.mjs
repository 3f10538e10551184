// The page shows which mail programs lack what an email uses.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { call, close, open, start } from './support.mjs';

let server;

before(async () => {
  server = await start([]);
});

test('the check names mail programs, and what it does not know', async () => {
  await call(server, 'POST', '/api/v1/emails', {
    from: 'hello@sandbox.test', to: 'ada@example.test', subject: 'Round', html: '<p style="border-radius: 4px; scroll-behavior: smooth">x</p><center>y</center>',
  });
  const { id } = await call(server, 'GET', '/_sandbox/messages/wait?to=ada@example.test');
  const page = await open(server, `mailbox/${id}`);
  await page.frameLocator('iframe').getByText('y', { exact: true }).waitFor();
  await page.getByRole('tab', { name: 'Compatibility' }).click();
  const row = page.getByRole('row', { name: 'border-radius' });
  await row.getByText(/Not in .*Outlook \(Windows, Windows Mail\)/).waitFor();
  await row.getByText('Round corners can be used in VML').waitFor();
  const panel = page.getByRole('tabpanel');
  await panel.getByText('Without data: <center>, scroll-behavior').waitFor();
  await page.getByLabel('Mail program').selectOption('Apple Mail');
  await panel.getByText('Apple Mail supports all of them').waitFor();
  await close(page);
});
