// Recognizes the features of HTML and CSS that an email uses. Their names are those of caniemail.

import { parse } from './frame.js';

/**
 * @typedef {{document: Document, source: string, css: string, values: string, selectors: string, bare: string,
 *   rules: string, images: string[], hasComments: boolean, hasNesting: boolean}} Facts
 * @typedef {{date: string, clients: string[][], features: Record<string, any[]>}} Data
 */

/**
 * What the HTML uses.
 * @param {string} source
 * @param {string[]} [embedded] The media types of the embedded images that it refers to.
 * @returns {Facts}
 */
export function read(source, embedded = []) {
  const document = parse(source);
  const sheet = { declarations: new Set(), selectors: new Set(), rules: new Set(), urls: new Set(), hasComments: false,
    hasNesting: false };
  for (const element of document.querySelectorAll('[data-inert-sheet]')) readCss(element.textContent ?? '', sheet, false);
  for (const element of document.querySelectorAll('[data-inert-style]')) readCss(element.getAttribute('data-inert-style') ?? '',
    sheet, true);
  const elements = [...document.querySelectorAll('img, source, [background], video')];
  const urls = [...sheet.urls, ...elements.flatMap((element) => ['src', 'srcset', 'background', 'poster'].map((name) =>
    element.getAttribute(name) ?? ''))];
  const css = [...sheet.declarations].join('\n');
  const selectors = [...sheet.selectors].join('\n');
  return {
    document, source, css, selectors,
    values: css.replace(/^[\w-]+:/gm, ''),
    bare: selectors.replace(/\[[^[\]]*\]/g, '[]').replace(/\([^()]*\)/g, '').replace(/\([^()]*\)/g, ''),
    rules: [...sheet.rules].join('\n'),
    // The start of a URL has the type of a `data:` URL, and its end the file name.
    images: [...urls.filter(Boolean).map((url) => `${url.slice(0, 40)} ${url.slice(-200)}`.trim().toLowerCase()),
      ...embedded],
    hasComments: sheet.hasComments, hasNesting: sheet.hasNesting,
  };
}

/** Tokens of CSS: comments, strings, single signs, and the text between them. */
const TOKEN = /\/\*[\s\S]*?(?:\*\/|$)|"(?:\\[\s\S]|[^"\\])*"?|'(?:\\[\s\S]|[^'\\])*'?|[{};()/]|[^{};()/"']+/g;

/** @param {string} text @param {any} sheet @param {boolean} inline */
function readCss(text, sheet, inline) {
  for (const [, url] of text.matchAll(/url\(\s*["']?([^"')]{1,4000})/gi)) sheet.urls.add(url);
  /** @type {string[]} */
  const open = [];
  let part = '';
  let parentheses = 0;
  const end = () => {
    const [, property, value] = /^\s*([\w-]+)\s*:([\s\S]*)$/.exec(part) ?? [];
    const within = open.at(-1);
    if (part.trim().startsWith('@')) sheet.rules.add(part.trim().toLowerCase());
    else if (property && (inline || within === 'rule' || within === '@font-face' || within === '@page')) {
      sheet.declarations.add(`${property.toLowerCase()}:${value.trim().toLowerCase().replace(/\s+/g,
        ' ').replace(/url\([^()]*\)/g, 'url()')}`);
    }
    part = '';
  };
  for (const [token] of text.matchAll(TOKEN)) {
    if (token.startsWith('/*')) sheet.hasComments = true;
    else if (token === '{') {
      const head = part.replace(/<!--|-->/g, ' ').replace(/\s+/g, ' ').trim();
      part = '';
      parentheses = 0;
      const name = /^@[\w-]+/.exec(head)?.[0].toLowerCase();
      if (name) sheet.rules.add(head.toLowerCase());
      else if (!/keyframes$/.test(open.at(-1) ?? '')) {
        if (open.includes('rule')) sheet.hasNesting = true;
        sheet.selectors.add(head);
      }
      open.push(name ?? 'rule');
    } else if (token === '}') {
      end();
      open.pop();
      parentheses = 0;
    } else if (token === ';' && parentheses === 0) end();
    else {
      if (token === '(') parentheses += 1;
      if (token === ')') parentheses = Math.max(0, parentheses - 1);
      // What is quoted names no feature.
      part += /^["']/.test(token) ? '""' : token;
    }
  }
  end();
}

/** @typedef {{element: string} | {property: RegExp} | {test: (facts: Facts) => boolean}} Rule */

/** @param {string} names @returns {Rule} */
const property = (names) => ({ property: new RegExp(`^(?:${names}):`, 'm') });
/** @param {RegExp} pattern @returns {Rule} */
const declaration = (pattern) => ({ property: pattern });
/** @param {RegExp} pattern @returns {Rule} */
const value = (pattern) => ({ test: (facts) => pattern.test(facts.values) });
/** @param {RegExp} pattern @returns {Rule} */
const selector = (pattern) => ({ test: (facts) => pattern.test(facts.bare) });
/** @param {RegExp} pattern @returns {Rule} */
const atRule = (pattern) => ({ test: (facts) => pattern.test(facts.rules) });
/** @param {RegExp} pattern @returns {Rule} */
const source = (pattern) => ({ test: (facts) => pattern.test(facts.source) });
/** @param {string} element @returns {Rule} */
const element = (element) => ({ element });
/** @param {RegExp} pattern @returns {Rule} */
const image = (pattern) => ({ test: (facts) => facts.images.some((one) => pattern.test(one)) });
/** @param {string} kinds */
const imageOf = (kinds) => image(new RegExp(`\\.(?:${kinds})(?:[?#\\s]|$)|^(?:data:)?image/(?:${kinds})\\b`));

/**
 * The features whose names do not tell how to recognize them; `null` are those that the HTML
 * alone does not show.
 * @type {Record<string, Rule | null>}
 */
const SPECIAL = {
  amp: source(/<html[^>]*\s(?:amp4email|⚡4email)/i),
  bimi: null,
  'css-animation': property('animation(?:-[\\w-]+)?'),
  'css-at-media-device-pixel-ratio': atRule(/^@media.*device-pixel-ratio/m),
  'css-at-media-hover': atRule(/^@media.*\((?:any-)?hover/m),
  'css-block-inline-size': property('block-size|inline-size'),
  'css-border': property('border(?:-(?:top|right|bottom|left))?(?:-(?:width|style|color))?'),
  'css-border-image': property('border-image(?:-[\\w-]+)?'),
  'css-border-inline-block': property('border-(?:inline|block)'),
  'css-border-inline-block-individual': property('border-(?:inline|block)-(?:start|end)(?:-[\\w-]+)?'),
  'css-border-inline-block-longhand': property('border-(?:inline|block)-(?:width|style|color)'),
  'css-border-radius': property('border-radius|border-(?:top|bottom)-(?:left|right)-radius'),
  'css-border-radius-logical': property('border-(?:start|end)-(?:start|end)-radius'),
  'css-column-layout-properties': property('columns|column-(?:width|fill|span|rule(?:-[\\w-]+)?)'),
  'css-comments': { test: (facts) => facts.hasComments },
  'css-conic-gradient': value(/conic-gradient\(/),
  'css-display-flex': declaration(/^display:.*flex/m),
  'css-display-grid': declaration(/^display:.*grid/m),
  'css-display-none': declaration(/^display:none/m),
  'css-flex-direction': declaration(/^(?:flex-direction|flex-flow):.*column/m),
  'css-flex-wrap': declaration(/^(?:flex-wrap|flex-flow):.*\bwrap/m),
  'css-gap': property('gap|column-gap|row-gap|grid-(?:column-|row-)?gap'),
  'css-grid-template': property('grid-template(?:-[\\w-]+)?'),
  'css-important': value(/!\s*important/),
  'css-inert-attribute': element('[inert]'),
  'css-intrinsic-size': value(/\b(?:fit|min|max)-content\b/),
  'css-left-right-top-bottom': property('left|right|top|bottom'),
  'css-linear-gradient': value(/linear-gradient\(/),
  'css-margin': property('margin(?:-(?:top|right|bottom|left))?'),
  'css-margin-block-start-end': property('margin-block-(?:start|end)'),
  'css-margin-inline-block': property('margin-(?:inline|block)'),
  'css-margin-inline-start-end': property('margin-inline-(?:start|end)'),
  'css-modern-color': value(/\b(?:ok)?l(?:ch|ab)\(/),
  'css-nesting': { test: (facts) => facts.hasNesting },
  'css-outline': property('outline(?:-(?:color|style|width))?'),
  'css-overflow': property('overflow(?:-[xy])?'),
  'css-padding': property('padding(?:-(?:top|right|bottom|left))?'),
  'css-padding-block-start-end': property('padding-block-(?:start|end)'),
  'css-padding-inline-block': property('padding-(?:inline|block)'),
  'css-padding-inline-start-end': property('padding-inline-(?:start|end)'),
  'css-radial-gradient': value(/radial-gradient\(/),
  'css-rgb': value(/\brgb\(/),
  'css-rgba': value(/\brgba\(/),
  'css-scroll-snap': property('scroll-snap-[\\w-]+'),
  'css-selector-adjacent-sibling': selector(/\+/),
  'css-selector-attribute': selector(/\[/),
  'css-selector-chaining': selector(/\.[\w-]+\.[\w-]/),
  'css-selector-child': selector(/>/),
  'css-selector-class': selector(/\.[\w-]/),
  'css-selector-descendant': selector(/[\w\])*-] [\w.#:[*]/),
  'css-selector-general-sibling': selector(/~/),
  'css-selector-grouping': selector(/,/),
  'css-selector-id': selector(/#[\w-]/),
  'css-selector-type': selector(/(?:^|[ >+~,])[a-z]/im),
  'css-selector-universal': selector(/\*/),
  'css-sytem-ui': value(/\b(?:system-ui|ui-(?:serif|sans-serif|rounded|monospace))\b/),
  'css-transition': property('transition(?:-[\\w-]+)?'),
  'css-unit-calc': value(/\bcalc\(/),
  'css-unit-initial': value(/\binitial\b/),
  'css-unit-percent': value(/\d%/),
  'css-variables': { test: (facts) => /^--|\bvar\(/m.test(facts.css) },
  'html-align': element('[align]'),
  'html-anchor-links': element('a[href^="#"]'),
  'html-background': element('[background]'),
  'html-body': source(/<body\b/i),
  'html-button-reset': element('button[type="reset" i]'),
  'html-button-submit': element('button[type="submit" i], form button:not([type])'),
  'html-cellpadding': element('[cellpadding]'),
  'html-cellspacing': element('[cellspacing]'),
  'html-comments': source(/<!--/),
  'html-dir': element('[dir]'),
  'html-doctype': source(/^\s*<!doctype html>/i),
  'html-h1-h6': element('h1, h2, h3, h4, h5, h6'),
  'html-height': element('[height]'),
  'html-hidden': element('[hidden]'),
  'html-image-maps': element('map, area, [usemap]'),
  'html-input-text': element('input[type="text" i], input:not([type])'),
  'html-lang': element('[lang]'),
  'html-lists': element('ul, ol, li, dl, dt, dd'),
  'html-loading-attribute': element('[loading]'),
  'html-mailto-links': element('a[href^="mailto:" i]'),
  'html-meta-color-scheme': element('meta[name="color-scheme" i]'),
  'html-popover': element('[popover]'),
  'html-required': element('[required]'),
  'html-role': element('[role]'),
  'html-semantics': element(
    'article, aside, details, figcaption, figure, footer, header, main, mark, nav, section, summary, time'),
  'html-style': element('[data-inert-sheet]'),
  'html-srcset': element('[srcset], [sizes]'),
  'html-target': element('[target]'),
  'html-valign': element('[valign]'),
  'html-width': element('[width]'),
  'image-base64': image(/^data:image\/[^,]*;base64/),
  'image-hdr': null,
  'image-heif': imageOf('heif|heic'),
  'image-ico': imageOf('ico|x-icon|vnd\\.microsoft\\.icon'),
  'image-jpg': imageOf('jpg|jpeg'),
  'image-mp4': { test: (facts) => [...facts.document.querySelectorAll('img')].some((one) =>
    /\.mp4(?:[?#]|$)/i.test(one.getAttribute('src') ?? '')) },
  'image-svg': imageOf('svg|svg\\+xml'),
  'image-tiff': imageOf('tif|tiff'),
};

const KINDS = ['css-pseudo-class', 'css-pseudo-element', 'css-unit', 'css-at-media', 'css-at', 'css-function', 'css',
  'html-aria', 'html-input', 'html', 'image'];
const KIND = new RegExp(`^(${KINDS.join('|')})-(.+)$`);

/** How a feature of caniemail is recognized. @param {string} slug @returns {Rule | null} */
export function ruleOf(slug) {
  if (slug in SPECIAL) return SPECIAL[slug];
  const [, kind, name] = KIND.exec(slug) ?? [];
  switch (kind) {
    case 'css-pseudo-class': return selector(new RegExp(`(?<!:):${name}(?![\\w-])`, 'i'));
    case 'css-pseudo-element': return selector(new RegExp(`:${name}(?![\\w-])`, 'i'));
    case 'css-unit': return value(new RegExp(`(?<![\\w#.-])[+-]?(?:\\d+\\.?|\\d*\\.\\d+)${name}\\b`));
    case 'css-at-media': return atRule(new RegExp(`^@media.*${name}`, 'm'));
    case 'css-at': return atRule(new RegExp(`^@(?:-\\w+-)?${name}\\b`, 'm'));
    case 'css-function': return value(new RegExp(`(?<![\\w-])${name}\\(`));
    case 'css': return property(name);
    case 'html-aria': return element(`[aria-${name}]`);
    case 'html-input': return element(`input[type="${name}" i]`);
    case 'html': return element(name);
    case 'image': return imageOf(name);
    default: return null;
  }
}

/** @param {Rule} rule @param {Facts} facts */
function applies(rule, facts) {
  if ('element' in rule) return facts.document.querySelector(rule.element) !== null;
  return 'property' in rule ? rule.property.test(facts.css) : rule.test(facts);
}

/**
 * The features that the email uses, those without full support first, and what the data does
 * not cover.
 * @param {Data} data @param {Facts} facts
 */
export function check(data, facts) {
  const used = [];
  const unrecognized = [];
  const rules = [];
  for (const [slug, [title, cells, notes = {}]] of Object.entries(data.features)) {
    const rule = ruleOf(slug);
    if (!rule) {
      unrecognized.push(String(title));
      continue;
    }
    rules.push(rule);
    if (!applies(rule, facts)) continue;
    /** @type {{client: string[], support: string, notes: string[]}[]} */
    const results = String(cells).split(',').map((cell, n) => ({
      client: data.clients[n], support: cell[0] ?? '', notes: cell.slice(1).split('.').filter(Boolean).map((note) =>
        String(notes[note])),
    }));
    const of = (/** @type {string} */ support) => results.filter((one) => one.support === support);
    used.push({ slug, title: String(title), full: of('y'), partial: of('a'), none: of('n') });
  }
  used.sort((a, b) => b.none.length - a.none.length || b.partial.length - a.partial.length || (a.title < b.title ? -1 :
    1));
  return { used, unrecognized, unknown: unknown(rules, facts) };
}

/** The properties and elements of the email that no rule is about. @param {Rule[]} rules @param {Facts} facts */
function unknown(rules, facts) {
  const names = new Set(facts.css.split('\n').map((one) => one.slice(0, one.indexOf(':'))).filter((one) => one &&
    !one.startsWith('--')));
  const patterns = rules.flatMap((rule) => ('property' in rule ? [rule.property] : []));
  // `display:flex` is about `display`, whose other values are another feature.
  const properties = [...names].filter((name) => !patterns.some((pattern) => pattern.source.startsWith(`^${name}:`) ||
    pattern.test(`${name}:`) || pattern.test(`${name}: column wrap`)));
  const known = new Set(rules.flatMap((rule) => ('element' in rule ? rule.element.split(', ') : [])));
  const elements = new Set([...facts.document.querySelectorAll('*')].map((one) => one.localName));
  for (const name of ['noframes', 'html', 'head', 'body', 'tbody', 'thead', 'tr', 'td', 'th', ...known]) elements.delete(name);
  return { properties: properties.sort(), elements: [...elements].sort() };
}
