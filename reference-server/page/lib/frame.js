// Shows the HTML of others in a frame without scripts and without this page's origin. A form
// sends the HTML to the server, which returns it with a content security policy of its own:
// a frame that this page filled itself would have this page's policy.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { BASE } from './api.js';
import { Button, Choice, html } from './ui.js';

const WIDTHS = { phone: 375, tablet: 768 };

/** Makes colors dark as mail programs do that invert light messages. */
const FORCED_DARK = '<style>html{filter:invert(1) hue-rotate(180deg);background:#fff!important}'
  + 'img,video,svg{filter:invert(1) hue-rotate(180deg)}</style>';

/**
 * HTML as a document that is not shown, so nothing of it runs or is loaded. The browser would report
 * each style and handler as an error, because the page's policy holds for it. So their names have a prefix
 * here, and style sheets are elements without a meaning.
 * @param {string} content
 */
export function parse(content) {
  const renamed = content.replace(TAG, (_, start, name, rest, end) => {
    const attributes = rest.replace(/(?<=[\s"'/])(?=(?:style|on\w+)\s*=)/gi, PREFIX);
    return `<${start}${name.toLowerCase() === 'style' ? `noframes ${PREFIX}sheet` : name}${attributes}${end}`;
  });
  return new DOMParser().parseFromString(renamed, 'text/html');
}

/** The document as HTML, with the names that `parse` has changed. @param {Document} document */
function serialize({ documentElement }) {
  const sheet = new RegExp(`<noframes ${PREFIX}sheet=""([^]*?)</noframes>`, 'g');
  return documentElement.outerHTML.replace(sheet, '<style$1</style>').replaceAll(PREFIX, '');
}

const PREFIX = 'data-inert-';

/** A tag, also one that does not end. */
const TAG = /<(\/?)([a-z][^\s/>]*)((?:"[^"]*"|'[^']*'|[^'">])*)(>?)/gi;

/** What a style refers to as `cid:`. */
const STYLE_REFERENCE = /url\(\s*(["']?)cid:([^"')]+)\1\s*\)/gi;

/**
 * Calls `replace` with each `Content-ID` that the HTML refers to (RFC 2392), and returns the HTML with the URLs that
 * it returns.
 * @param {string} content
 * @param {(id: string) => string | undefined} replace
 */
export function replaceEmbedded(content, replace) {
  if (!/cid|&#|&colon/i.test(content)) return content;
  const document = parse(content);
  const inStyle = (/** @type {string} */ text) => text.replace(STYLE_REFERENCE, (whole, _, id) => {
    const url = replace(contentId(id));
    return url ? `url(${url})` : whole;
  });
  for (const element of document.querySelectorAll('*')) {
    for (const { name, value } of element.attributes) {
      const [, id] = (LOADING.includes(name) && /^\s*cid:(.+)$/is.exec(value)) || [];
      const url = id ? replace(contentId(id)) : name === `${PREFIX}style` ? inStyle(value) : undefined;
      if (url !== undefined) element.setAttribute(name, url);
    }
  }
  for (const sheet of styleSheets(document)) sheet.textContent = inStyle(sheet.textContent ?? '');
  return serialize(document);
}

/** @param {Document} document */
const styleSheets = (document) => [...document.querySelectorAll(`[${PREFIX}sheet]`)];

/** A `Content-ID`, as the reference or the attachment has it, in one spelling. @param {string} text */
export function contentId(text) {
  const id = text.trim().replace(/^<|>$/g, '');
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}

const LOADING = ['src', 'srcset', 'background', 'poster', 'data', 'href', 'xlink:href'];

/** The pixels by which the sandbox sees that a message was opened: to look at it here is not to open it. */
const PIXEL = /(?:https?:\/\/[^\s"'<>/]+)?\/t\/o\/eml_[\da-f-]{36}\/\d+/gi;

/** @param {string} content */
export const withoutPixels = (content) => content.replace(PIXEL, 'data:,');

/** How many resources of the HTML load from elsewhere. @param {Document} document */
export function remoteContent(document) {
  let count = 0;
  const loading = document.querySelectorAll('[src], [srcset], [background], [poster], object, link, image, use');
  for (const element of loading) {
    count += LOADING.filter((name) =>
      /^(?!\s*data:)(?:.*[\s,])?(?:https?:)?\/\//i.test((element.getAttribute(name) ?? '').slice(0, 4000))).length;
  }
  const attributes = [...document.querySelectorAll(`[${PREFIX}style]`)];
  const styles = [...attributes.map((one) => one.getAttribute(`${PREFIX}style`)), ...styleSheets(document).map((one) =>
    one.textContent)];
  for (const style of styles) count += [...(style ?? '').matchAll(/(?:url\(|@import)["'\s]*(?:https?:)?\/\//gi)].length;
  return count;
}

/**
 * @param {{content: string, title: string, images?: () => Promise<Record<string, string>>,
 *   children?: import('./ui.js').Children}} props
 */
export function HtmlView({ content, title, images, children }) {
  const [width, setWidth] = useState('full');
  const [theme, setTheme] = useState('light');
  const [remote, setRemote] = useState(false);
  const [inline, setInline] = useState(/** @type {Record<string, string> | null} */ (null));
  const seen = useMemo(() => withoutPixels(content), [content]);
  const count = useMemo(() => remoteContent(parse(seen)), [seen]);
  useEffect(() => {
    if (images) images().then(setInline, () => setInline(Object.create(null)));
    else setInline(Object.create(null));
  }, [content]);
  let shown = replaceEmbedded(seen, (id) => inline?.[id]);
  // Which colors the system prefers must not matter, so the queries for them are decided here.
  shown = shown.replace(/\(\s*prefers-color-scheme\s*:\s*(dark|light)\s*\)/gi, (_, scheme) =>
    (scheme.toLowerCase() === (theme === 'dark' ? 'dark' : 'light') ? '(min-width:0px)' : '(max-width:0px)'));
  // No policy prevents links and frames from connecting. What replaces them has no effect, and is
  // parsed in the same way.
  if (!remote) shown = shown.replace(/<(\/?)iframe(?=[\s/>])/gi, '<$1noframes').replace(/<(?:link|frame)(?=[\s/>])/gi,
    '<basefont');
  const prefix = `<!doctype html><meta charset="utf-8"><base target="_blank">${theme === 'forced' ? FORCED_DARK : ''}`;
  return html`
    <div class="frame-bar">
      <${Choice} label="Width" value=${width} onChange=${setWidth} options=${[['phone', 'Phone'], ['tablet', 'Tablet'],
        ['full', 'Full']]} />
      <${Choice} label="Colors" value=${theme} onChange=${setTheme} options=${[['light', 'Light'], ['dark', 'Dark'],
        ['forced', 'Forced dark']]} />
      ${children}
      ${count > 0 && html`<span class="notice">${remote ? 'Remote content is shown' :
        `Remote content is blocked (${count})`}
        <${Button} kind="small" onClick=${() => setRemote(!remote)}>${remote ? 'Block' : 'Show'}<//></span>`}
    </div>
    <div class=${`stage ${width === 'full' ? '' : 'sized'}`}>
      ${inline && html`<${Frame} key=${`${theme}${remote}`} content=${prefix + shown} title=${title} remote=${remote}
        width=${WIDTHS[/** @type {keyof typeof WIDTHS} */ (width)]} />`}
    </div>`;
}

let frames = 0;

/** @param {{content: string, title: string, remote: boolean, width?: number}} props */
function Frame({ content, title, remote, width }) {
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  const [name] = useState(() => `frame-${++frames}`);
  useEffect(() => {
    const area = /** @type {HTMLTextAreaElement} */ (form.current?.elements.namedItem('html'));
    area.value = content;
    form.current?.submit();
    area.value = '';
  }, [content]);
  return html`
    <form ref=${form} hidden method="post" enctype="text/plain" target=${name} action=${`${BASE}/page/preview${remote ?
      '?remote=1' : ''}`}><textarea name="html" aria-label="HTML"></textarea></form>
    <iframe name=${name} title=${title} sandbox="allow-popups allow-popups-to-escape-sandbox"
      style=${{ width: width ? `${width}px` : '100%' }}></iframe>`;
}
