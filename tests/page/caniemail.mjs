// Makes the table of the server's HTML check from a checkout of
// https://github.com/hteumeuleu/caniemail: node caniemail.mjs CHECKOUT
// For each feature it keeps the title, the mail programs whose newest version does not support it or supports a
// part, the notes about that, and how the feature is recognized: by names, such as `<video>`, `[dir]` or `color:`, or by a pattern in one part of what
// `html_check.rs` reads.

import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';

const [checkout] = process.argv.slice(2);
const folder = new URL('../../reference-server/src/mail/html_check/', import.meta.url);
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

/** The longhand properties of a shorthand, and the shorthand itself. */
const longhands = (name, ends) => [name, ...ends.split(' ').map((end) => `${name}-${end}`)].join(' ');
const SIDES = 'top right bottom left';

const properties = (names) => ({ names: names.split(' ').map((name) => `${name}:`) });
const elements = (names) => ({ names: names.split(' ').map((name) => `<${name}>`) });
const names = (...list) => ({ names: list });
const within = (part) => (pattern) => ({ pattern: { [part]: pattern } });
const declaration = within('declarations');
const selector = within('selectors');
const rule = within('rules');
const image = (kinds) => within('images')(`\\.(?:${kinds})(?:[?#\\s]|$)|^\\w+ (?:data:)?image/(?:${kinds})\\b`);

/** The features whose names do not tell how to recognize them. */
const SPECIAL = {
  amp: names('[amp4email]', '[⚡4email]'),
  'css-animation': properties(longhands('animation', 'name duration timing-function delay iteration-count direction fill-mode play-state')),
  'css-at-media-device-pixel-ratio': rule('^@media.*device-pixel-ratio'),
  'css-at-media-hover': rule('^@media.*\\((?:any-)?hover'),
  'css-block-inline-size': properties('block-size inline-size'),
  'css-border': properties(`border border-width border-style border-color ${SIDES.split(' ').map((side) => longhands(`border-${side}`, 'width style color')).join(' ')}`),
  'css-border-image': properties(longhands('border-image', 'source slice width outset repeat')),
  'css-border-inline-block': properties('border-inline border-block'),
  'css-border-inline-block-individual': properties(['inline-start', 'inline-end', 'block-start', 'block-end'].map((side) => longhands(`border-${side}`, 'width style color')).join(' ')),
  'css-border-inline-block-longhand': properties('border-inline-width border-inline-style border-inline-color border-block-width border-block-style border-block-color'),
  'css-border-radius': properties('border-radius border-top-left-radius border-top-right-radius border-bottom-left-radius border-bottom-right-radius'),
  'css-border-radius-logical': properties('border-start-start-radius border-start-end-radius border-end-start-radius border-end-end-radius'),
  'css-column-layout-properties': properties('columns column-width column-fill column-span column-rule column-rule-color column-rule-style column-rule-width'),
  'css-comments': names('/**/'),
  'css-conic-gradient': declaration('conic-gradient\\('),
  'css-display-flex': declaration('^display:.*flex'),
  'css-display-grid': declaration('^display:.*grid'),
  'css-display-none': declaration('^display:none'),
  'css-flex-direction': declaration('^(?:flex-direction|flex-flow):.*column'),
  'css-flex-wrap': declaration('^(?:flex-wrap|flex-flow):.*\\bwrap'),
  'css-gap': properties('gap column-gap row-gap grid-gap grid-column-gap grid-row-gap'),
  'css-grid-template': properties(longhands('grid-template', 'areas columns rows')),
  'css-important': declaration('!\\s*important'),
  'css-inert-attribute': names('[inert]'),
  'css-intrinsic-size': declaration(':.*\\b(?:fit|min|max)-content\\b'),
  'css-left-right-top-bottom': properties('left right top bottom'),
  'css-linear-gradient': declaration('linear-gradient\\('),
  'css-margin': properties(longhands('margin', SIDES)),
  'css-margin-block-start-end': properties('margin-block-start margin-block-end'),
  'css-margin-inline-block': properties('margin-inline margin-block'),
  'css-margin-inline-start-end': properties('margin-inline-start margin-inline-end'),
  'css-modern-color': declaration('\\b(?:ok)?l(?:ch|ab)\\('),
  'css-nesting': selector('&'),
  'css-outline': properties(longhands('outline', 'color style width')),
  'css-overflow': properties(longhands('overflow', 'x y')),
  'css-padding': properties(longhands('padding', SIDES)),
  'css-padding-block-start-end': properties('padding-block-start padding-block-end'),
  'css-padding-inline-block': properties('padding-inline padding-block'),
  'css-padding-inline-start-end': properties('padding-inline-start padding-inline-end'),
  'css-radial-gradient': declaration('radial-gradient\\('),
  'css-rgb': declaration('\\brgb\\('),
  'css-rgba': declaration('\\brgba\\('),
  'css-scroll-snap': properties('scroll-snap-type scroll-snap-align scroll-snap-stop'),
  'css-selector-adjacent-sibling': selector('\\+'),
  'css-selector-attribute': selector('\\['),
  'css-selector-chaining': selector('\\.[\\w-]+\\.[\\w-]'),
  'css-selector-child': selector('>'),
  'css-selector-class': selector('\\.[\\w-]'),
  'css-selector-descendant': selector('[\\w\\])*-] [\\w.#:\\[*]'),
  'css-selector-general-sibling': selector('~'),
  'css-selector-grouping': selector(','),
  'css-selector-id': selector('#[\\w-]'),
  'css-selector-type': selector('(?:^|[ >+~,])[a-z]'),
  'css-selector-universal': selector('\\*'),
  'css-sytem-ui': declaration('\\b(?:system-ui|ui-(?:serif|sans-serif|rounded|monospace))\\b'),
  'css-transition': properties(longhands('transition', 'property duration timing-function delay')),
  'css-unit-calc': declaration('\\bcalc\\('),
  'css-unit-initial': declaration(':.*\\binitial\\b'),
  'css-unit-percent': declaration('\\d%'),
  'css-variables': declaration('^--|\\bvar\\('),
  'html-align': names('[align]'),
  'html-anchor-links': within('names')('^<a href=#'),
  'html-background': names('[background]'),
  'html-button-reset': names('<button type=reset>'),
  'html-button-submit': elements('button'),
  'html-cellpadding': names('[cellpadding]'),
  'html-cellspacing': names('[cellspacing]'),
  'html-comments': names('<!-->'),
  'html-dir': names('[dir]'),
  'html-h1-h6': elements('h1 h2 h3 h4 h5 h6'),
  'html-height': names('[height]'),
  'html-hidden': names('[hidden]'),
  'html-image-maps': names('<map>', '<area>', '[usemap]'),
  'html-input-text': names('<input type=text>'),
  'html-lang': names('[lang]'),
  'html-lists': elements('ul ol li dl dt dd'),
  'html-loading-attribute': names('[loading]'),
  'html-mailto-links': within('names')('^<a href=mailto:'),
  'html-meta-color-scheme': names('<meta name=color-scheme>'),
  'html-popover': names('[popover]'),
  'html-required': names('[required]'),
  'html-role': names('[role]'),
  'html-semantics': elements('article aside details figcaption figure footer header main mark nav section summary time'),
  'html-srcset': names('[srcset]', '[sizes]'),
  'html-target': names('[target]'),
  'html-valign': names('[valign]'),
  'html-width': names('[width]'),
  'image-base64': within('images')('^\\w+ data:image/[^,]*;base64'),
  'image-heif': image('heif|heic'),
  'image-ico': image('ico|x-icon|vnd\\.microsoft\\.icon'),
  'image-jpg': image('jpg|jpeg'),
  'image-mp4': within('images')('^img .*\\.mp4(?:[?#\\s]|$)'),
  'image-svg': image('svg|svg\\+xml'),
  'image-tiff': image('tif|tiff'),
};

/**
 * The HTML alone does not show the first two. The lack of the others is not seen: every document has them, and mail
 * programs that take them away put the content into a page of their own.
 */
const LEFT_OUT = ['bimi', 'image-hdr', 'html-body', 'html-doctype'];

/** What needs no feature: parts of tables and of documents, and properties of which only some values are features. */
const KNOWN = [...elements('html head body title tbody thead tfoot tr td th').names, ...properties('flex-direction flex-flow').names];

const KINDS = ['css-pseudo-class', 'css-pseudo-element', 'css-unit', 'css-at-media', 'css-at', 'css-function', 'css',
  'html-aria', 'html-input', 'html', 'image'];

/** How a feature is recognized. */
function ruleOf(slug) {
  if (slug in SPECIAL) return SPECIAL[slug];
  const [, kind, name] = new RegExp(`^(${KINDS.join('|')})-(.+)$`).exec(slug) ?? [];
  switch (kind) {
    case 'css-pseudo-class': return selector(`(?:^|[^:]):${name}(?:[^\\w-]|$)`);
    case 'css-pseudo-element': return selector(`:${name}(?:[^\\w-]|$)`);
    case 'css-unit': return declaration(`[^\\w#.-][+-]?(?:\\d+\\.?|\\d*\\.\\d+)${name}\\b`);
    case 'css-at-media': return rule(`^@media.*${name}`);
    case 'css-at': return rule(`^@(?:-\\w+-)?${name}\\b`);
    case 'css-function': return declaration(`[^\\w-]${name}\\(`);
    case 'css': return properties(name);
    case 'html-aria': return names(`[aria-${name}]`);
    case 'html-input': return names(`<input type=${name}>`);
    case 'html': return elements(name);
    case 'image': return image(name);
    default: throw new Error(`${slug} is of no known kind`);
  }
}

/** The platforms of each mail program. @type {Map<string, Set<string>>} */
const programs = new Map();
const found = [];
for (const file of readdirSync(`${checkout}/_features`).filter((one) => /^[a-z].*\.md$/.test(one) && !LEFT_OUT.includes(one.slice(0, -3)))) {
  const text = readFileSync(`${checkout}/_features/${file}`, 'utf8');
  const title = JSON.parse(/^title:\s*(".*")/m.exec(text)[1]).trim();
  const support = { n: new Map(), a: new Map(), y: new Map() };
  const numbers = new Set();
  for (const [family, platforms] of Object.entries(mapping(text, 'stats'))) {
    const program = nicename(family);
    for (const [platform, versions] of Object.entries(platforms)) {
      programs.set(program, (programs.get(program) ?? new Set()).add(platform));
      const newest = Object.values(versions).at(-1) ?? '';
      const level = support[newest[0]];
      if (!level) continue;
      level.set(program, [...level.get(program) ?? [], platform]);
      // Why there is full support does not matter.
      if (newest[0] !== 'y') for (const [, number] of newest.matchAll(/#(\d+)/g)) numbers.add(number);
    }
  }
  const byNumber = mapping(text, 'notes_by_num');
  const notes = [...numbers].sort((one, other) => one - other).filter((number) => byNumber[number]);
  found.push({ name: file.slice(0, -3), title, support, notes: notes.map((number) => plain(byNumber[number])) });
}

/** Mail programs, with their platforms if these are not all. */
function named(level) {
  const sorted = [...level].sort(([one], [other]) => one.localeCompare(other));
  return sorted.map(([program, platforms]) => (platforms.length === programs.get(program).size ? program :
    `${program} (${platforms.map(nicename).sort().join(', ')})`));
}

found.sort((one, other) => one.title.localeCompare(other.title));
const lines = found.map(({ name, title, support, notes }) => JSON.stringify({ name, title, none: named(support.n),
  partial: named(support.a), notes, ...ruleOf(name) }));
const commit = git('rev-parse', 'HEAD');
const date = git('log', '-1', '--format=%cs');
writeFileSync(new URL('caniemail.json', folder), `{"source":"https://github.com/hteumeuleu/caniemail","commit":"${commit}","date":"${date}","license":"MIT, caniemail-LICENSE",
"programs":${JSON.stringify([...programs.keys()].sort((one, other) => one.localeCompare(other)))},
"known":${JSON.stringify(KNOWN)},
"features":[
${lines.join(',\n')}
]}
`);
copyFileSync(`${checkout}/LICENSE`, new URL('caniemail-LICENSE', folder));
console.log(`${found.length} features, ${programs.size} mail programs, commit ${commit} of ${date}`);
