// Makes `vendor/caniemail.json` of the page from a checkout of
// https://github.com/hteumeuleu/caniemail: node caniemail.mjs CHECKOUT
// For each feature it keeps the title, the support in the newest version of each mail program
// (`y`, `n`, or `a` for a part, with the numbers of notes), and these notes.

import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';

const [checkout] = process.argv.slice(2);
const vendor = new URL('../../reference-server/page/vendor/', import.meta.url);
const git = (...args) => execFileSync('git', ['-C', checkout, ...args], { encoding: 'utf8' }).trim();

/** The lines of a mapping of YAML in flow style, with keys that need not be quoted. */
function mapping(text, name) {
  const block = new RegExp(`^"?${name}"?:\\s*(\\{[\\s\\S]*?\\})\\s*^(?:["\\w]+:|---)`, 'm').exec(text)?.[1];
  if (!block) return {};
  return JSON.parse(block.replace(/^(\s*)([\w-]+)\s*:/gm, '$1"$2":').replace(/,(\s*\})/g, '$1').replace(/\\(?!["\\/bfnrtu])/g, '\\\\'));
}

const nicenames = readFileSync(`${checkout}/_data/nicenames.yml`, 'utf8');
const nicename = (id) => new RegExp(`^  ${id}: "(.*)"`, 'm').exec(nicenames)?.[1] ?? id;
/** Notes are Markdown. */
const plain = (note) => note.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').replaceAll('`', '').replace(/\s+/g, ' ').trim();

const clients = new Map();
const found = [];
for (const file of readdirSync(`${checkout}/_features`).filter((one) => /^[a-z].*\.md$/.test(one)).sort()) {
  const text = readFileSync(`${checkout}/_features/${file}`, 'utf8');
  const title = JSON.parse(/^title:\s*(".*")/m.exec(text)[1]).trim();
  const support = new Map();
  for (const [family, platforms] of Object.entries(mapping(text, 'stats'))) {
    for (const [platform, versions] of Object.entries(platforms)) {
      const newest = Object.values(versions).at(-1);
      const client = `${family} ${platform}`;
      clients.set(client, [nicename(family), nicename(platform)]);
      if (newest && /^[yna]/.test(newest)) support.set(client, newest);
    }
  }
  found.push({ slug: file.slice(0, -3), title, support, notes: mapping(text, 'notes_by_num') });
}

const order = [...clients.keys()].sort();
const lines = found.map(({ slug, title, support, notes }) => {
  const used = {};
  const cells = order.map((client) => {
    const cell = support.get(client) ?? '';
    const numbers = [...cell.matchAll(/#(\d+)/g)].map(([, number]) => number).filter((number) => notes[number]);
    // Why there is full support does not matter.
    if (cell[0] === 'y' || !cell) return cell.slice(0, 1);
    for (const number of numbers) used[number] = plain(notes[number]);
    return cell[0] + numbers.join('.');
  });
  const parts = [title, cells.join(',')];
  if (Object.keys(used).length > 0) parts.push(used);
  return `${JSON.stringify(slug)}:${JSON.stringify(parts)}`;
});
const commit = git('rev-parse', 'HEAD');
const date = git('log', '-1', '--format=%cs');
writeFileSync(new URL('caniemail.json', vendor), `{"source":"https://github.com/hteumeuleu/caniemail","commit":"${commit}","date":"${date}","license":"MIT, caniemail-LICENSE",
"clients":${JSON.stringify(order.map((client) => clients.get(client)))},
"features":{
${lines.join(',\n')}
}}
`);
copyFileSync(`${checkout}/LICENSE`, new URL('caniemail-LICENSE', vendor));
console.log(`${found.length} features, ${order.length} mail programs, commit ${commit} of ${date}`);
