// The compatibility check recognizes what an email uses, and shows which mail programs lack it.

import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { call, close, open, start } from './support.mjs';

let server;

before(async () => {
  server = await start([]);
});

/** HTML, and every feature of it that the data covers. `<i>` is not among them. */
const RECOGNIZED = [
  ['<i>x</i>', ''],
  ['<!doctype html><body lang="en"><!-- x --><p align="center">x</p>', 'html-align html-body html-comments html-doctype html-lang html-p'],
  ['<i style="Border-Radius: 4px !important; COLOR: rgba(0,0,0,.5)">', 'css-border-radius css-important css-rgba css-unit-px'],
  ['<i style="display:inline-flex; gap: 1em; width: calc(100% - 2rem)">', 'css-display css-display-flex css-gap css-unit-calc css-unit-em css-unit-percent css-unit-rem css-width'],
  ['<i style="border-top: solid; margin-left: 0; padding: 0; margin-inline: 0">', 'css-border css-margin css-margin-inline-block css-padding'],
  ['<i style="font-family: \'4px; border-radius: 1px\', ui-serif; --size: 1">', 'css-sytem-ui css-variables'],
  ['<i style="background: url(data:image/png;base64,QUJD4pxvar)">', 'css-background image-base64 image-png'],
  ['<style>/* x */ @import url("a.css"); @font-face { font-family: x }</style>', 'css-at-font-face css-at-import css-comments html-style'],
  ['<style>@media (prefers-color-scheme: dark) and (hover) { .a.b > i { float: left } }</style>',
    'css-at-media css-at-media-hover css-at-media-prefers-color-scheme css-float css-selector-chaining css-selector-child css-selector-class css-selector-type html-style'],
  ['<style>#a [title="x>y"], * + i:nth-child(2n+1)::after { content: "a ~ b" }</style>',
    'css-pseudo-class-nth-child css-pseudo-element-after css-selector-adjacent-sibling css-selector-attribute css-selector-descendant css-selector-grouping css-selector-id css-selector-type css-selector-universal html-style'],
  ['<style>.a { &:hover { opacity: max(0.5, 0.4) } } @keyframes x { from { opacity: 0 } 50% { opacity: 1 } }</style>',
    'css-at-keyframes css-function-max css-nesting css-opacity css-pseudo-class-hover css-selector-class html-style'],
  ['<a href="#x" target="_blank">x</a><a href="MAILTO:a@b.test">x</a>', 'html-anchor-links html-mailto-links html-target'],
  ['<img src="https://x.test/a.PNG?b" srcset="a.webp 2x" loading="lazy" width="4">', 'html-img html-loading-attribute html-srcset html-width image-png image-webp'],
  ['<form><input><button>x</button><input type="Hidden"></form>', 'html-button-submit html-form html-input-hidden html-input-text'],
  // What is unfinished ends nothing else.
  ['<style>i { width: 1ch; height: (</style><i style="clear: both; \'">', 'css-clear css-height css-selector-type css-unit-ch css-width html-style'],
];

const PARTS = ['(', '"', '/*', '{', '1', 'a:', 'url(', '[', ' + ', '-', '@media ', '\\', ' '];

test('features are recognized, and only those', async () => {
  const page = await open(server, 'mailbox');
  const found = await page.evaluate(async ([sources, parts]) => {
    const { check, read, ruleOf } = await import('/page/lib/compatibility.js');
    const data = await (await fetch('/page/vendor/caniemail.json')).json();
    const used = sources.map((source) => check(data, read(source)).used.map((one) => one.slug).sort().join(' '));
    const start = performance.now();
    // A megabyte of brackets, quotes and digits, of which nothing takes quadratic time.
    for (const part of parts) {
      const long = part.repeat(300_000 / part.length);
      check(data, read(`<style>${long}{} i { width: ${long}; } ${long}</style><i style='width: ${long}'>`));
    }
    return { used, without: Object.keys(data.features).filter((slug) => !ruleOf(slug)), time: performance.now() - start };
  }, [RECOGNIZED.map(([source]) => source), PARTS]);
  RECOGNIZED.forEach(([source, features], n) => assert.equal(found.used[n], features, source));
  assert.deepEqual(found.without, ['bimi', 'image-hdr']);
  console.log(`hostile style sheets of 1 MB were checked in ${Math.round(found.time / PARTS.length)} ms each`);
  await close(page);
});

test('the check names mail programs, and what it does not know', async () => {
  await call(server, 'POST', '/api/v1/emails', {
    from: 'hello@sandbox.test', to: 'ada@example.test', subject: 'Round', html: '<p style="border-radius: 4px; scroll-behavior: smooth">x</p><center>y</center>',
  });
  const { id } = await call(server, 'GET', '/_sandbox/messages/wait?to=ada@example.test');
  const page = await open(server, `mailbox/${id}`);
  const files = [];
  page.on('request', (request) => files.push(new URL(request.url()).pathname));
  await page.frameLocator('iframe').getByText('y', { exact: true }).waitFor();
  assert.deepEqual(files.filter((path) => /compatibility|caniemail/.test(path)), []);
  await page.getByRole('tab', { name: 'Compatibility' }).click();
  const row = page.getByRole('row', { name: 'border-radius' });
  await row.getByText(/Not in .*Outlook \(Windows, Windows Mail\)/).waitFor();
  await row.getByText('Round corners can be used in VML').waitFor();
  const panel = page.getByRole('tabpanel');
  await panel.getByText('Properties of the email without data: scroll-behavior').waitFor();
  await panel.getByText('Elements of the email without data: center').waitFor();
  await page.getByLabel('Mail program').selectOption('Apple Mail');
  await panel.getByText('Apple Mail supports all of them').waitFor();
  await close(page);
});
