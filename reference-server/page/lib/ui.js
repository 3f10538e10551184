// Components that the views share. Text is always set as text: `html` makes elements, and
// never parses a value as HTML.

import { h, createContext } from 'preact';
import { useContext, useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import htm from 'htm';
import { go } from './route.js';
import { time } from './text.js';

export const html = htm.bind(h);

/** What the whole page offers to its views: messages at the edge, and questions. */
export const Page = createContext(
  /** @type {{toast: (text: string, kind?: string) => void, ask: (question: Question) => void}} */ ({
    toast: () => {},
    ask: () => {},
  }),
);
/** Whether the clock of the server stands still. */
export const Frozen = createContext(false);
/** @typedef {{title: string, text: string, action: string, danger?: boolean, run: () => Promise<void>}} Question */
/** @typedef {import('preact').ComponentChildren} Children */
/** @typedef {import('./api.js').Problem} Problem */
/** The fields of a form. @typedef {Record<string, string>} Values */

const ICONS = {
  mailbox: 'M3 7.5 12 13l9-5.5M4.5 5h15A1.5 1.5 0 0 1 21 6.500v11a1.5 1.5 0 0 1-1.5 1.500h-15'
    + 'A1.5 1.5 0 0 1 3 17.500v-11A1.5 1.5 0 0 1 4.5 5Z',
  emails: 'M21 3 10 14M21 3l-7 18-4-7-7-4 18-7Z',
  deliveries: 'M4 12h11M11 7l5 5-5 5M20 4v16',
  webhooks: 'M12 9a3 3 0 1 0-3-3c0 1 .5 1.800 1.200 2.400L7 14M6 14.500a3 3 0 1 0 3 3h7M18 14.500a3 3 0 1 1-2.500 4.500'
    + 'M14.500 7.500 18 14.500',
  domains: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM3.5 9h17M3.5 15h17M12 3c-5 5.5-5 12.5 0 18M12 3c5 5.5 5 12.5 0 18',
  audiences: 'M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM2.5 20c.5-4 3-6 6.5-6s6 2 6.5 6'
    + 'M16 4.500a3.5 3.5 0 0 1 0 6.500M18 14.500c2 .8 3.2 2.7 3.5 5.5',
  templates: 'M4 4h16v5H4zM4 13h7v7H4zM15 13h5v7h-5z',
  requests: 'M4 6h16M4 12h10M4 18h13',
  faults: 'M13 2 5 14h6l-1 8 9-13h-6l0-7Z',
  clock: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM12 7v5l3.5 2',
  keys: 'M14.5 9.500a4.5 4.5 0 1 0-4 4.400L12.5 16H15v2.500h2.500V21H21v-3.500'
    + 'l-6.9-6.400c.3-.5.4-1 .4-1.600ZM9.5 9h.01',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  search: 'M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13ZM15.5 15.5 20 20',
  menu: 'M4 6h16M4 12h16M4 18h16',
  back: 'M15 5l-7 7 7 7',
  up: 'M6 15l6-6 6 6',
  down: 'M6 9l6 6 6-6',
  replay: 'M4 12a8 8 0 1 1 2.5 5.800M4 12V7M4 12h5',
  plus: 'M12 5v14M5 12h14',
  trash: 'M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13',
  attachment: 'M20 11.5 12 19.500a5 5 0 0 1-7-7L13.5 4a3.3 3.3 0 0 1 4.7 4.700L10 17a1.7 1.7 0 0 1-2.4-2.400L15 7',
  list: 'M4 4h16v16H4zM10 4v16',
  check: 'M5 12.5 10 17.5 19.5 7',
  cross: 'M6 6l12 12M18 6 6 18',
  theme: 'M12 3a9 9 0 1 0 0 18ZM12 3a9 9 0 0 1 0 18',
  link: 'M10 14a4 4 0 0 0 6 .5l3-3a4 4 0 0 0-5.7-5.700L12 7M14 10a4 4 0 0 0-6-.5l-3 3a4 4 0 0 0 5.7 5.700L12 17',
  download: 'M12 4v11M7 11l5 5 5-5M4 20h16',
  play: 'M7 4v16l13-8Z',
  due: 'M5 4h14M5 20h14M7 4c0 5 3 6 5 8-2 2-5 3-5 8M17 4c0 5-3 6-5 8 2 2 5 3 5 8',
  pause: 'M8 4v16M16 4v16',
};
/** @typedef {keyof typeof ICONS} IconName */

/** @param {{name: IconName}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${ICONS[name]} /></svg>`;
}

/**
 * @param {{icon?: IconName, children?: Children, kind?: string, label?: string} & Record<string, unknown>} props
 */
export function Button({ icon, children, kind = '', label, ...rest }) {
  return html`<button type="button" class=${`button ${kind} ${children ? '' : 'only-icon'}`} aria-label=${label}
    title=${label} ...${rest}>
    ${icon && html`<${Icon} name=${icon} />`}${children && html`<span>${children}</span>`}
  </button>`;
}

/** @param {{at: string | number}} props */
export function Time({ at }) {
  return html`<time datetime=${new Date(at).toISOString()} title=${new Date(at).toISOString()}>${time(at)}</time>`;
}

/** When something is due. @param {{at: string}} props */
export function Due({ at }) {
  return html`<${Time} at=${at} />${useContext(Frozen) ? ', when the clock runs' : ''}`;
}

const TONES = {
  good: ['delivered', 'verified', 'active', 'pass', 'opened', 'clicked'],
  bad: ['bounced', 'failed', 'complained', 'dropped', 'fail', 'error'],
  busy: ['queued', 'sending', 'sent', 'pending', 'scheduled', 'softfail'],
};

/** @param {string | number | null | undefined} value */
export function tone(value) {
  if (typeof value === 'number') return value < 300 ? 'good' : value < 400 ? 'busy' : value < 500 ? 'warn' : 'bad';
  const found = Object.entries(TONES).find(([, words]) => words.includes(value ?? ''));
  return found ? found[0] : 'none';
}

/** @param {{value: string | number | null | undefined, label?: string}} props */
export function Badge({ value, label }) {
  return html`<span class=${`badge ${value === null ? 'bad' : tone(value)}`}>${label ?? value ?? 'cut'}</span>`;
}

/** @param {{error: Problem, retry?: () => void}} props */
export function Failure({ error, retry }) {
  return html`<div class="failure" role="alert">
    <p>${error.message}</p>
    ${error.fields && error.fields.length > 1 && html`<ul>${error.fields.map((one) =>
      html`<li><code>${one.field}</code> ${one.message}</li>`)}</ul>`}
    ${retry && html`<${Button} onClick=${retry}>Try again<//>`}
  </div>`;
}

/** @param {{title: string, children?: Children}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p>${children && html`<div
    class="empty-text">${children}</div>`}</div>`;
}

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Browsers offer the clipboard only to pages that they trust, such as those of localhost.
    const area = document.createElement('textarea');
    area.value = text;
    (document.querySelector('dialog[open]') ?? document.body).append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

/** @param {{text: string, label?: string, children?: Children}} props */
export function Copy({ text, label = 'Copy', children }) {
  const [done, setDone] = useState(false);
  const click = async () => {
    await copy(text);
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return html`<button type="button" class=${children ? 'button' : 'button quiet only-icon'} aria-label=${label}
    title=${label} onClick=${click}>
    <${Icon} name=${done ? 'check' : 'copy'} />${children && html`<span>${children}</span>`}
    <span class="sr" role="status">${done ? 'Copied' : ''}</span>
  </button>`;
}

/**
 * Text with a button that copies it, unless it would be of no use elsewhere.
 * @param {{text: string, label?: string, wrap?: boolean, fixed?: boolean}} props
 */
export function Code({ text, label = 'Code', wrap = false, fixed = false }) {
  return html`<div class=${`code ${fixed ? 'fixed' : ''}`}>
    <pre tabindex="0" role="region" aria-label=${label} class=${wrap ? 'wrap' : ''}>${text}</pre>
    ${!fixed && html`<${Copy} text=${text} label=${`Copy ${label.toLowerCase()}`} />`}
  </div>`;
}

/**
 * @param {{label: string, tabs: [string, string, (number | null)?][], value: string, onChange: (value: string) =>
 * void}} props
 */
export function Tabs({ label, tabs, value, onChange }) {
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  }, [value]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex(([id]) => id === value);
    const next = (at + step + tabs.length) % tabs.length;
    onChange(tabs[next][0]);
    /** @type {HTMLElement} */ (list.current?.children[next])?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${keys}>
    ${tabs.map(([id, name, count]) => html`<button type="button" role="tab" key=${id} aria-selected=${id === value ?
      'true' : 'false'}
      tabindex=${id === value ? 0 : -1} onClick=${() => onChange(id)}>${name}${count ? html` <span
        class="count">${count}</span>` : ''}</button>`)}
  </div>`;
}

/** @param {{label: string, options: [string, string][], value: string, onChange: (value: string) => void}} props */
export function Choice({ label, options, value, onChange }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(([id, name]) => html`<button type="button" key=${id} aria-pressed=${id === value ? 'true' : 'false'}
      onClick=${() => onChange(id)}>${name}</button>`)}
  </div>`;
}

/** @param {{label: string, hint?: string, children?: Children}} props */
export function Field({ label, hint, children }) {
  return html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

/** @param {{title: string, onClose: () => void, children?: Children}} props */
export function Dialog({ title, onClose, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  // Before the paint: a key typed at once belongs to the dialog.
  useLayoutEffect(() => {
    dialog.current?.showModal();
  }, []);
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose}
    onClick=${(/** @type {MouseEvent} */ event) => {
    if (event.target === dialog.current) dialog.current?.close();
  }}>
    <div class="dialog">
      <header><h2>${title}</h2><${Button} kind="quiet" icon="cross" label="Close" onClick=${() =>
        dialog.current?.close()} /></header>
      ${children}
    </div>
  </dialog>`;
}

/**
 * A form in a dialog, which shows what the server refused.
 * @param {{title: string, action: string, onClose: () => void, onSubmit: (values: Values) => Promise<void>,
 *   children?: Children, danger?: boolean}} props
 */
export function FormDialog({ title, action, onClose, onSubmit, children, danger = false }) {
  const [error, setError] = useState(/** @type {Problem | null} */ (null));
  const [busy, setBusy] = useState(false);
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const data = new FormData(/** @type {HTMLFormElement} */ (event.target));
      await onSubmit(/** @type {Values} */ (Object.fromEntries(data)));
      onClose();
    } catch (problem) {
      setError(/** @type {Problem} */ (problem));
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      ${children}
      ${error && html`<${Failure} error=${error} />`}
      <footer><${Button} onClick=${onClose}>Cancel<//><button type="submit" class=${`button ${danger ? 'danger' :
        'primary'}`} disabled=${busy}><span>${action}</span></button></footer>
    </form>
  <//>`;
}

/** What is in the field that an event is about. @param {Event} event */
export const valueOf = (event) => /** @type {HTMLInputElement} */ (event.target).value;

/** Runs what a button does, and tells its result. */
export function useAction() {
  const page = useContext(Page);
  return async (/** @type {() => Promise<unknown>} */ work, /** @type {string} */ done = '') => {
    try {
      const result = await work();
      if (done) page.toast(done);
      return result;
    } catch (error) {
      page.toast(/** @type {Error} */ (error).message, 'bad');
      return undefined;
    }
  };
}

/** The head of a view. @param {{title: string, children?: Children}} props */
export function Head({ title, children }) {
  return html`<div class="head"><h1>${title}</h1>${children}</div>`;
}

/**
 * A search field: `/` moves the focus to it, and Enter and ↓ from it to the first row. `matches` says how many
 * rows match, once they are loaded.
 * @param {{value: string, hint: string, onSearch: (text: string) => void, matches?: string}} props
 */
export function Search({ value, hint, onSearch, matches }) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  const leaves = useRef(false);
  useEffect(() => setText(value), [value]);
  const leave = () => {
    leaves.current = false;
    /** @type {HTMLElement | null} */ (document.querySelector('.list .row'))?.focus();
  };
  useEffect(() => {
    if (leaves.current && matches !== undefined && text === value) leave();
  });
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== 'Enter' && event.key !== 'ArrowDown') return;
    event.preventDefault();
    clearTimeout(timer.current);
    if (text === value && matches !== undefined) leave();
    else {
      leaves.current = true;
      onSearch(text);
    }
  };
  const input = (/** @type {Event} */ event) => {
    const now = valueOf(event);
    setText(now);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => onSearch(now), 200);
  };
  return html`<div class="search"><${Icon} name="search" />
    <input id="search" type="search" aria-label="Search" placeholder=${hint} title=${hint} value=${text}
      onInput=${input} onKeyDown=${keys} spellcheck=${false} autocomplete="off" />
    <span class="matches" role="status">${value && matches}</span>
  </div>`;
}

/** Whether the list and the opened item are side by side. */
export function useWide() {
  const query = '(min-width: 900px)';
  const [wide, setWide] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const media = matchMedia(query);
    const update = () => setWide(media.matches);
    media.addEventListener('change', update);
    return () => media.removeEventListener('change', update);
  }, []);
  return wide;
}

/** Whether a key press belongs to a field or to a dialog. @param {KeyboardEvent} event */
export function isTyping(event) {
  const target = /** @type {HTMLElement} */ (event.target);
  return target.matches('input:not([type=checkbox]), textarea, select')
    || document.querySelector('dialog[open]') !== null;
}

/**
 * A list of links, of which only the visible ones are in the document. `j`, `k` and the arrows move
 * the focus; where there is room beside the list, they also open the item.
 * @template {{id: string}} T
 * @param {{label: string, items: T[], height: number, selected: string, linkOf: (item: T) => string,
 *   row: (item: T) => Children, rowClass?: (item: T) => string, onEnd: () => void, back: string,
 *   picked?: Set<string>, onPick?: (id: string) => void, nameOf?: (item: T) => string}} props
 */
export function List({ label, items, height, selected, linkOf, row, rowClass = () => '', onEnd, back, picked,
  onPick, nameOf }) {
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const [range, setRange] = useState({ top: 0, size: 800 });
  const focus = useRef('');
  const first = useRef(/** @type {{id: string, offset: number} | null} */ (null));
  const wide = useWide();
  const opening = useRef(0);

  const measure = () => {
    const element = box.current;
    if (!element) return;
    const at = Math.floor(element.scrollTop / height);
    first.current = element.scrollTop > 4 && items[at] ? { id: items[at].id,
      offset: element.scrollTop - at * height } : null;
    setRange({ top: element.scrollTop, size: element.clientHeight });
    if (element.scrollTop + 3 * element.clientHeight > items.length * height) onEnd();
  };
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    // Newer items must not move what is being read.
    const kept = first.current;
    const at = kept ? items.findIndex((item) => item.id === kept.id) : -1;
    if (kept && at >= 0 &&
      Math.abs(element.scrollTop - (at * height + kept.offset)) > 1) element.scrollTop = at * height + kept.offset;
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [items]);
  // An item that was opened by its URL is scrolled to, once it is loaded.
  const at = items.findIndex((item) => item.id === selected);
  useEffect(() => show(at), [selected, at >= 0]);

  /** @param {number} at */
  const show = (at) => {
    const element = box.current;
    if (!element || at < 0) return;
    if (at * height < element.scrollTop) element.scrollTop = at * height;
    const bottom = (at + 1) * height - element.clientHeight;
    if (bottom > element.scrollTop) element.scrollTop = bottom;
  };
  useLayoutEffect(() => {
    if (!focus.current) return;
    const found = box.current?.querySelector(`[data-id="${CSS.escape(focus.current)}"]`);
    const link = /** @type {HTMLElement | null} */ (found);
    if (link) {
      focus.current = '';
      link.focus({ preventScroll: true });
    }
  });
  useEffect(() => {
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
      const active = /** @type {HTMLElement | null} */ (document.activeElement);
      const here = active && box.current?.contains(active) ? active.dataset.id : selected;
      if (event.key === 'Escape' && selected) {
        event.preventDefault();
        focus.current = selected;
        go(back);
        return;
      }
      if (event.key === 'x' && here && onPick) onPick(here);
      const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
      // In an opened item, the arrows scroll.
      if (!step || items.length === 0 || (event.key.length > 1 && active?.closest('.split-detail'))) return;
      event.preventDefault();
      const at = items.findIndex((item) => item.id === here);
      const next = at < 0 ? 0 : Math.min(Math.max(at + step, 0), items.length - 1);
      focus.current = items[next].id;
      show(next);
      measure();
      clearTimeout(opening.current);
      if (wide || selected) opening.current = window.setTimeout(() => go(linkOf(items[next]), true), 80);
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  });

  const from = Math.max(0, Math.floor(range.top / height) - 8);
  const to = Math.min(items.length, Math.ceil((range.top + range.size) / height) + 8);
  const shown = items.slice(from, to);
  const tabStop = shown.some((item) => item.id === selected) ? selected : shown[0]?.id;
  return html`<div class="list" ref=${box} onScroll=${measure}>
    <div role="list" aria-label=${label} class="list-all" style=${{ height: `${items.length * height}px` }}>
      ${shown.map((item, at) => html`<div role="listitem" key=${item.id} class="list-item"
        style=${{ top: `${(from + at) * height}px`, height: `${height}px` }}>
        <a class=${`row ${onPick ? 'pickable' : ''} ${rowClass(item)}`} href=${linkOf(item)} data-id=${item.id}
          aria-current=${item.id === selected ? 'true' : undefined}
          tabindex=${item.id === tabStop ? 0 : -1} draggable=${false}>${row(item)}</a>
        ${onPick && html`<label class="pick"><input type="checkbox" aria-label=${`Select ${nameOf?.(item) ?? item.id}`}
          tabindex="-1" checked=${picked?.has(item.id)} onChange=${() => onPick(item.id)} /></label>`}
      </div>`)}
    </div>
  </div>`;
}

/** The list and the opened item. @param {{list: Children, detail: Children, open: string}} props */
export function Split({ list, detail, open }) {
  const [width, setWidth] = useState(() => Number(localStorage.getItem(WIDTH)) || 400);
  const box = useRef(/** @type {HTMLDivElement | null} */ (null));
  const resize = (/** @type {number} */ wanted) => {
    const most = Math.max(260, (box.current?.clientWidth ?? 900) - 360);
    const kept = Math.round(Math.min(Math.max(wanted, 260), most));
    setWidth(kept);
    localStorage.setItem(WIDTH, String(kept));
  };
  const drag = (/** @type {PointerEvent} */ event) => {
    const bar = /** @type {HTMLElement} */ (event.currentTarget);
    if (event.type === 'pointerdown') bar.setPointerCapture(event.pointerId);
    if (!bar.hasPointerCapture(event.pointerId)) return;
    event.preventDefault();
    resize(event.clientX - (box.current?.getBoundingClientRect().left ?? 0));
  };
  return html`<div class=${`split ${open ? 'open' : ''}`} ref=${box} style=${{ '--list': `${width}px` }}><section
    class="split-list" aria-label="List">${list}</section><div class="splitter" role="separator"
      aria-orientation="vertical" aria-label="Size of the list" aria-valuenow=${width} aria-valuemin="260"
      aria-valuemax="2000" tabindex="0" onPointerDown=${drag} onPointerMove=${drag}
      onKeyDown=${(/** @type {KeyboardEvent} */ { key }) => /^Arrow(Left|Right)$/.test(key) && resize(width +
        (key === 'ArrowLeft' ? -20 : 20))}></div><section
      class="split-detail" aria-label="Details" key="detail">${detail}</section></div>`;
}

const WIDTH = 'svc.list-width';

/**
 * What is above the opened item: back to the list where there is room for one of them, and whether
 * the list is shown beside it.
 * @param {{back: string, children?: Children}} props
 */
export function Bar({ back, children }) {
  const [hidden, setHidden] = useState(() => document.body.classList.contains('no-list'));
  return html`<div class="detail-bar">
    <span class="only-narrow"><${Button} kind="quiet" icon="back" label="Back to the list" onClick=${() =>
      go(back)} /></span>
    <span class="only-wide"><${Button} kind="quiet" icon="list" label=${hidden ? 'Show the list' : 'Hide the list'}
      onClick=${() => setHidden(document.body.classList.toggle('no-list'))} /></span>${children}</div>`;
}

/** The head of an email or a message; a long subject is folded. @param {{text: string}} props */
export function Subject({ text }) {
  const [open, setOpen] = useState(false);
  const long = text.length > MAX_SUBJECT;
  return html`<h2 dir="auto">${long && !open ? `${text.slice(0, MAX_SUBJECT)}…` : text || '(no subject)'}</h2>
    ${long && html`<div><${Button} kind="small" onClick=${() => setOpen(!open)}>${open ? 'Fold the subject' :
      `Show all ${text.length} characters`}<//></div>`}`;
}

const MAX_SUBJECT = 160;

/** Text whose URLs are links. @param {{text: string}} props */
export function Linked({ text }) {
  return text.split(/(https?:\/\/[^\s<>"]*[^\s<>"'.,;:!?)\]}])/i).map((part, n) => (n % 2 === 0 ? part : html`<a
    href=${part} target="_blank" rel="noopener noreferrer">${part}</a>`));
}

/** Names and values. @param {{rows: [string, Children][]}} props */
export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(([, value]) => value || value === 0).map(([name, value]) => html`<div
    key=${name}><dt>${name}</dt><dd dir="auto">${value}</dd></div>`)}</dl>`;
}

/**
 * A part of a view that has a title.
 * @param {{title: string, actions?: Children, children?: Children}} props
 */
export function Section({ title, actions, children }) {
  return html`<section class="section"><header><h2>${title}</h2>${actions}</header>${children}</section>`;
}
