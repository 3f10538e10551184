// The page: navigation, the organization, the keys, and the view that the URL names.

import { render } from 'preact';
import { useCallback, useContext, useEffect, useRef, useState } from 'preact/hooks';
import * as api from './lib/api.js';
import { useResource } from './lib/data.js';
import { connect, useConnected } from './lib/live.js';
import { useUnread } from './lib/read.js';
import { go, href, useRoute } from './lib/route.js';
import { ahead } from './lib/text.js';
import { Button, Dialog, Empty, Failure, Field, FormDialog, Frozen, Head, Icon, Page, html, isTyping, useAction,
  valueOf } from './lib/ui.js';
import { Audiences } from './views/audiences.js';
import { Clock, useAdvance, useClock } from './views/clock.js';
import { Deliveries } from './views/deliveries.js';
import { Domains } from './views/domains.js';
import { DueNext } from './views/due.js';
import { Emails } from './views/emails.js';
import { Faults } from './views/faults.js';
import { Keys } from './views/keys.js';
import { Mailbox } from './views/mailbox.js';
import { Requests } from './views/requests.js';
import { Templates } from './views/templates.js';
import { Webhooks } from './views/webhooks.js';

/**
 * The views, each with an icon of its name, in the order of the navigation.
 * @type {{id: import('./lib/ui.js').IconName, label: string,
 *   View: (props: {route: import('./lib/route.js').Route}) => import('preact').ComponentChildren}[]}
 */
const VIEWS = [
  { id: 'mailbox', label: 'Mailbox', View: Mailbox },
  { id: 'emails', label: 'Emails', View: Emails },
  { id: 'deliveries', label: 'Deliveries', View: Deliveries },
  { id: 'webhooks', label: 'Webhooks', View: Webhooks },
  { id: 'domains', label: 'Domains', View: Domains },
  { id: 'audiences', label: 'Audiences', View: Audiences },
  { id: 'templates', label: 'Templates', View: Templates },
  { id: 'requests', label: 'Requests', View: Requests },
  { id: 'faults', label: 'Faults', View: Faults },
  { id: 'due', label: 'Due next', View: DueNext },
  { id: 'clock', label: 'Clock', View: Clock },
  { id: 'keys', label: 'Keys', View: Keys },
];

/** @typedef {{label: string, group: string, run: () => void}} Command */

function App() {
  const [needsToken, setNeedsToken] = useState(false);
  const [toasts, setToasts] = useState(/** @type {{id: number, text: string, kind: string}[]} */ ([]));
  const [question, setQuestion] = useState(/** @type {import('./lib/ui.js').Question | null} */ (null));
  const next = useRef(0);
  const toast = useCallback((/** @type {string} */ text, kind = 'good') => {
    const id = ++next.current;
    setToasts((old) => [...old, { id, text, kind }]);
    setTimeout(() => setToasts((old) => old.filter((one) => one.id !== id)), kind === 'bad' ? 8000 : 3000);
  }, []);
  useEffect(() => api.whenUnauthorized(() => setNeedsToken(true)), []);
  const { view, id } = useRoute();
  // An error is about what was in view.
  useEffect(() => setToasts((old) => old.filter((one) => one.kind !== 'bad')), [view, id]);
  const page = { toast, ask: setQuestion };
  return html`<${Page.Provider} value=${page}>
    ${needsToken ? html`<${Token} onDone=${() => setNeedsToken(false)} />` : html`<${Shell} />`}
    ${question && html`<${FormDialog} title=${question.title} action=${question.action} danger=${question.danger}
      onClose=${() => setQuestion(null)} onSubmit=${question.run}><p>${question.text}</p><//>`}
    <div class="toasts" role="status" aria-live="polite">${toasts.map((one) => html`<div key=${one.id}
      class=${`toast ${one.kind}`}>${one.text}</div>`)}</div>
  <//>`;
}

/** Asks for the control token. @param {{onDone: () => void}} props */
function Token({ onDone }) {
  const [error, setError] = useState(/** @type {api.Problem | null} */ (null));
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    api.setToken(new FormData(/** @type {HTMLFormElement} */ (event.target)).get('token')?.toString().trim() ?? '');
    try {
      await api.get('/_sandbox/organizations');
      onDone();
    } catch (problem) {
      setError(/** @type {api.Problem} */ (problem));
    }
  };
  return html`<main class="token"><form onSubmit=${submit}>
    <h1>Control token</h1>
    <p>Others can reach this server, so its page needs the control token: the <code>control_token</code> of the line
      that the server printed at its start. This tab keeps it until it is closed.</p>
    <${Field} label="Control token"><input name="token" type="password" autocomplete="off" required autofocus /><//>
    ${error && html`<${Failure} error=${error.status === 401 ?
      { message: 'This is not the control token of this server.' } : error} />`}
    <button type="submit" class="button primary"><span>Open</span></button>
  </form></main>`;
}

function Shell() {
  const route = useRoute();
  const [palette, setPalette] = useState(false);
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  const [creating, setCreating] = useState(false);
  const page = useContext(Page);
  const action = useAction();
  const organizations = useResource(() => api.get('/_sandbox/organizations'), [], (event) => event.type === 'change' &&
    /^(organizations|reset)$/.test(event.resource));
  const clock = useClock();
  const frozen = clock.data?.frozen ?? false;
  const resume = () => action(() => api.post('/_sandbox/clock', { resume: true }), 'The clock runs');
  const real = () => action(() => api.post('/_sandbox/clock', { real: true }), 'The clock shows real time');
  const advance = useAdvance();
  const offset = ahead(clock.data?.ahead ?? 0);
  const version = useResource(() => api.get('/_sandbox/health'), []).data?.version;
  const chosen = route.params.organization ?? null;
  useEffect(() => {
    connect();
  }, [chosen]);

  useEffect(() => setMenu(false), [route.view, route.id]);
  useEffect(() => {
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault();
        setPalette(true);
        return;
      }
      if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) {
        if (event.key === 'Escape' &&
          /** @type {HTMLElement} */ (event.target).id === 'search') /** @type {HTMLElement} */ (event.target).blur();
        return;
      }
      if (event.key === 'Escape') setMenu(false);
      if (event.key === '?') setHelp(true);
      if (event.key === '/') {
        const search = document.getElementById('search');
        if (search) event.preventDefault();
        search?.focus();
      }
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, []);

  const list = organizations.data ?? [];
  const sandbox = list.find((one) => one.name === 'Sandbox');
  // A URL that a person wrote may name the organization.
  const selected = chosen ? list.find((one) => one.id === chosen || one.name === chosen) : sandbox;
  const name = selected?.name ?? chosen ?? 'Sandbox';
  const known = VIEWS.find(({ id }) => id === route.view);
  const { label: title, View } = known ?? { label: 'No such view', View: NoView };

  /** @param {string} id */
  const choose = (id) => go(`#/${known ? route.view : 'mailbox'}${id ? `?organization=${id}` : ''}`);
  // Without seed data there is no default organization.
  useEffect(() => {
    if (organizations.data && !chosen && !sandbox && list.length > 0) choose(list[list.length - 1].id);
  }, [organizations.data]);
  const reset = () => page.ask({
    title: `Empty ${name}?`,
    text: `All emails, messages, webhooks with their deliveries, domains with their DNS records, audiences with `
      + `their contacts, templates, faults and logged requests of ${name} are deleted. Its keys stay valid, and `
      + 'seeds are put back. Nothing else is affected: the clock and other organizations stay. To delete '
      + 'only messages, use the button above the mailbox.',
    action: 'Delete everything', danger: true,
    run: async () => {
      await api.post('/_sandbox/reset', { organization: chosen ?? 'Sandbox' });
      page.toast(`${name} is empty`);
    },
  });
  const freeze = () => action(() => api.post('/_sandbox/clock', { freeze: true }), 'The clock is frozen');
  const removeFaults = () => action(() => api.del('/_sandbox/faults'), 'All faults were removed');
  /** @type {Command[]} */
  const commands = [
    ...VIEWS.map(({ id, label }) => ({ label, group: 'Go to', run: () => go(href(id)) })),
    ...list.map((one) => ({ label: one.name, group: 'Organization', run: () => choose(one === sandbox ? '' : one.id) })),
    { label: 'Freeze the clock', group: 'Clock', run: freeze },
    { label: 'Resume the clock', group: 'Clock', run: resume },
    { label: 'Back to real time', group: 'Clock', run: real },
    ...Object.entries({ '1m': 'minute', '1h': 'hour', '1d': 'day' }).map(([by, unit]) => (
      { label: `Advance the clock by 1 ${unit}…`, group: 'Clock', run: () => advance(by) })),
    { label: 'New organization', group: 'Organization', run: () => setCreating(true) },
    { label: 'Remove all faults', group: 'Faults', run: removeFaults },
    { label: `Empty ${name}…`, group: 'Reset', run: reset },
    { label: 'Switch between dark and light', group: 'Page', run: switchTheme },
    { label: 'Keyboard shortcuts', group: 'Page', run: () => setHelp(true) },
  ];

  return html`<div class=${`shell ${menu ? 'menu-open' : ''}`}>
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => { event.preventDefault();
      document.getElementById('main')?.focus(); }}>Skip to content</a>
    <header class="bar">
      <${Button} kind="quiet" icon="menu" label="Navigation" aria-expanded=${menu ? 'true' : 'false'} onClick=${() =>
        setMenu(!menu)} />
      <strong>${title}</strong>
      ${frozen && html`<${Button} kind="small frozen" icon="play" onClick=${resume}>Clock frozen<//>`}
      <${Button} kind="quiet" icon="search" label="Commands" onClick=${() => setPalette(true)} />
    </header>
    <div class="scrim" onClick=${() => setMenu(false)}></div>
    <nav class="nav" aria-label="Views">
      <div class="organization">
        <label class="sr" for="organization">Organization</label>
        <select id="organization" value=${selected?.id ?? ''} onChange=${(/** @type {any} */ event) => {
          if (event.target.value === 'new') {
            event.target.value = selected?.id ?? '';
            setCreating(true);
          } else choose(event.target.value === sandbox?.id ? '' : event.target.value);
        }}>
          ${list.map((one) => html`<option key=${one.id} value=${one.id}>${one.name}</option>`)}
          <option value="new">New organization…</option>
        </select>
      </div>
      <button type="button" class="palette-button" onClick=${() => setPalette(true)}><${Icon}
        name="search" /><span>Commands</span><kbd>Ctrl K</kbd></button>
      <ul>${VIEWS.map(({ id, label }) => html`<li key=${id}><a href=${href(id)} aria-current=${id === route.view ?
        'page' : undefined}><${Icon} name=${id} /><span>${label}</span>${id === 'mailbox' &&
          html`<${Unread} title=${`${title} · ${name}`} />`}</a></li>`)}</ul>
      ${frozen && html`<p class="frozen"><span>The clock is frozen${offset && `, ${offset}`}</span><${Button} kind="small" icon="play"
        onClick=${resume}>Let it run<//></p>`}
      ${offset && !frozen && html`<p class="frozen"><span>${offset}</span><${Button} kind="small"
        onClick=${real}>Back to real time<//></p>`}
      <div class="nav-foot">
        <${Live} />
        <${Button} kind="quiet" icon="theme" label="Switch between dark and light" onClick=${switchTheme} />
        <${Button} kind="quiet" icon="trash" label=${`Empty ${name}…`} onClick=${reset} />
      </div>
      <p class="product"><span>svc sandbox ${version}</span><a href=${BOOK} target="_blank" rel="noopener">Book</a></p>
    </nav>
    <main class="main" id="main" tabindex="-1" key=${`${title}${chosen}`}>${organizations.error ? html`<${Failure}
      error=${organizations.error} retry=${organizations.reload} />`
      : chosen || sandbox ? html`<${Frozen.Provider} value=${frozen}><${View} route=${route} /><//>`
      : organizations.data && html`<${Empty} title="No organization">Every email, domain and key belongs to an
        organization.<${Button} kind="primary" onClick=${() => setCreating(true)}>New organization<//><//>`}</main>
    ${palette && html`<${Palette} commands=${commands} onClose=${() => setPalette(false)} />`}
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
    ${creating && html`<${FormDialog} title="New organization" action="Create" onClose=${() => setCreating(false)}
      onSubmit=${async (/** @type {import('./lib/ui.js').Values} */ values) => {
      const created = await api.post('/_sandbox/organizations', { name: values.name });
      api.keepKey(created.email_key, created.id);
      await organizations.reload();
      choose(created.id);
    }}><p>An organization has emails, domains, keys and everything else of its own.</p>
      <${Field} label="Name"><input name="name" required maxlength="200" autofocus /><//><//>`}
  </div>`;
}

const NoView = () => html`<${Head} title="No such view" /><${Empty} title="No such view"><p>The address names a view that
  does not exist. <a href=${href('mailbox')}>Open the mailbox</a></p><//>`;

/** How many messages are unread, also in the title of the window. @param {{title: string}} props */
function Unread({ title }) {
  const unread = useUnread();
  useEffect(() => {
    document.title = unread ? `(${unread}) ${title}` : title;
  }, [title, unread]);
  return unread > 0 && html`<span class="count">${unread}<span class="sr"> unread</span></span>`;
}

const BOOK = 'https://github.com/svc-tools/svc/blob/main/docs/README.md';

/** Whether events arrive. */
function Live() {
  const connected = useConnected();
  return html`<p class=${`live ${connected ? 'on' : ''}`} role="status">${connected ? 'Live' : 'Connecting…'}</p>`;
}

/** The views in which words can be searched for. */
const SEARCHED = VIEWS.filter(({ id }) => /^(mailbox|emails|deliveries|requests)$/.test(id));

/** The view of the item with this ID, if the text is one. @param {string} text */
function viewOf(text) {
  if (text.startsWith('msg_')) return 'mailbox';
  if (text.startsWith('eml_')) return 'emails';
  if (text.startsWith('req_')) return 'requests';
  return /^[0-9a-f-]{36}$/.test(text) ? 'deliveries' : '';
}

/** @param {{commands: Command[], onClose: () => void}} props */
function Palette({ commands, onClose }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const id = text.trim();
  /** @type {Command[]} */
  const searches = id.length < 2 ? [] : SEARCHED.map((one) => (
    { label: `${one.label}: “${id}”`, group: 'Search', run: () => go(href(one.id, '', { q: id })) }));
  const view = viewOf(id);
  /** @type {Command[]} */
  const found = view
    ? [{ label: `Open ${id}`, group: 'Go to', run: () => go(href(view, id)) }]
    : commands.filter(({ label, group }) => words.every((word) => `${group} ${label}`.toLowerCase().includes(word)))
      .concat(searches);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    list.current?.children[at]?.scrollIntoView({ block: 'nearest' });
  }, [at]);
  const run = (/** @type {Command} */ command) => {
    onClose();
    command.run();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      setAt((at + step + found.length) % Math.max(found.length, 1));
    }
    if (event.key === 'Enter' && found[at]) {
      event.preventDefault();
      run(found[at]);
    }
  };
  return html`<${Dialog} title="Commands" onClose=${onClose}>
    <input class="palette-input" role="combobox" aria-expanded="true" aria-controls="palette"
      aria-activedescendant=${found[at] ? `command-${at}` : undefined} aria-label="Command or ID"
      placeholder="A view, an organization, an action, an ID, or words to search for" value=${text} autofocus
      onKeyDown=${keys} onInput=${(/** @type {Event} */ event) => { setText(valueOf(event)); setAt(0); }} />
    <div class="palette" id="palette" role="listbox" aria-label="Commands" tabindex="-1" ref=${list}>
      ${found.map((command, index) => html`<div role="option" id=${`command-${index}`} key=${command.group + command.label}
        aria-selected=${index === at ? 'true' : 'false'} onMouseMove=${() => setAt(index)} onClick=${() =>
          run(command)}><span>${command.label}</span><small>${command.group}</small></div>`)}
    </div>
    ${found.length === 0 && html`<p class="muted">No command matches.</p>`}
  <//>`;
}

/** @param {{onClose: () => void}} props */
function Help({ onClose }) {
  const keys = { 'j, ↓': 'next item', 'k, ↑': 'previous item', Enter: 'open the item', x: 'select the message',
    Esc: 'back to the list; close', '/': 'search', 'Ctrl K': 'commands', '?': 'this list' };
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
    <dl class="shortcuts">${Object.entries(keys).map(([key, meaning]) => html`<div
      key=${key}><dt><kbd>${key}</kbd></dt><dd>${meaning}</dd></div>`)}</dl>
  <//>`;
}

const THEME = 'svc.theme';

function switchTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === 'dark'
    || (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
  const theme = dark ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme;
  localStorage.setItem(THEME, theme);
}

const theme = localStorage.getItem(THEME);
if (theme) document.documentElement.dataset.theme = theme;
render(html`<${App} />`, /** @type {HTMLElement} */ (document.getElementById('app')));
