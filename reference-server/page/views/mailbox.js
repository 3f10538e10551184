// Delivered and received messages.

import { useContext, useEffect, useMemo, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { useList, useResource } from '../lib/data.js';
import { HtmlView, contentId, parse, remoteContent, replaceEmbedded, withoutPixels } from '../lib/frame.js';
import { forget, isRead, markAllRead, markRead } from '../lib/read.js';
import { go, href } from '../lib/route.js';
import { addressOf, count, nameOf, search, size } from '../lib/text.js';
import { Badge, Bar, Button, Code, Copy, Empty, Facts, Failure, Field, FormDialog, Head, Icon, Linked, List, Page,
  Search, Section, Split, Subject, Tabs, Time, html, useAction } from '../lib/ui.js';
import { Compatibility } from './compatibility.js';
import { MailHint } from './keys.js';

/** @typedef {import('control').Message} Message */
/** @typedef {import('control').MessageSummaryList['data'][number]} MessageSummary */

/** The fields that a search of messages knows. */
const FIELDS = ['to', 'from', 'subject', 'after'];

/** @param {{route: import('../lib/route.js').Route}} props */
export function Mailbox({ route }) {
  const { id } = route;
  const query = route.params.q ?? '';
  const { params, problem } = useMemo(() => search(query, FIELDS), [query]);
  const messages = useList('/_sandbox/messages', params, 'message', id);
  const { items, loaded } = messages;
  const selection = useSelection(query);
  const [, redraw] = useState({});
  const page = useContext(Page);
  const action = useAction();
  const total = useResource(async () => (query && !problem ? api.get('/_sandbox/messages/count', params) : null),
    [params, api.selectedOrganization()], (event) => query !== '' && /^(message|change)$/.test(event.type));

  const back = href('mailbox', '', { q: query });
  const linkOf = (/** @type {MessageSummary} */ message) => href('mailbox', message.id, { q: query });
  const position = items.findIndex((message) => message.id === id);
  const previous = position > 0 ? items[position - 1] : undefined;
  const next = position >= 0 ? items[position + 1] : undefined;

  const markAll = () => {
    markAllRead(items[0].id);
    redraw({});
  };
  const removeSelected = async () => {
    await remove([...selection.ids]);
    selection.clear();
    if (!query || selection.ids.has(id)) go(back);
  };
  const removeAll = async () => {
    await api.del('/_sandbox/messages', params);
    if (!query) go(back);
  };
  const removeMany = () => action(async () => {
    if (selection.ids.size > 0) return page.ask(askForSelected(selection.ids.size, removeSelected));
    const { count } = await api.get('/_sandbox/messages/count', params);
    return page.ask(askForAll({ count, query, areShown: count === items.length, run: removeAll }));
  });
  const removeOne = () => action(async () => {
    await remove([id]);
    selection.clear();
    const neighbour = next ?? previous;
    go(neighbour ? linkOf(neighbour) : back, true);
  }, 'The message was deleted');

  const found = loaded && total.data ? String(total.data.count) : undefined;
  const failure = problem ?? messages.error;
  const isEmpty = loaded && items.length === 0 && !failure;
  const list = html`
    <${Toolbar} query=${query} matches=${query ? found : ''}
      selected=${selection.ids.size} disabled=${items.length === 0} canDelete=${!problem}
      onSearch=${(/** @type {string} */ text) => go(href('mailbox', id, { q: text }), true)}
      onMarkAll=${markAll} onDelete=${removeMany} />
    ${failure && html`<${Failure} error=${failure} retry=${problem ? undefined : messages.refresh} />`}
    ${isEmpty && html`<${Nothing} searched=${query} />`}
    ${!isEmpty && !problem && html`
      <${List} label="Messages" items=${items} height=${76} selected=${id} back=${back}
        linkOf=${linkOf} onEnd=${messages.more}
        picked=${selection.ids} onPick=${selection.toggle}
        nameOf=${(/** @type {MessageSummary} */ item) => `${subjectOf(item)} to ${item.recipient}`}
        rowClass=${(/** @type {MessageSummary} */ item) => (isRead(item.id) ? '' : 'unread')}
        row=${messageRow} />`}`;

  const detail = id
    ? html`
      <${MessageView} key=${id} id=${id} tab=${route.params.tab} q=${query}
        previous=${previous && (() => go(linkOf(previous)))}
        next=${next && (() => go(linkOf(next)))}
        onDelete=${removeOne} onRead=${() => redraw({})} />`
    : html`<${Empty} title="No message is open">Use <kbd>j</kbd> and <kbd>k</kbd> to go through the list.<//>`;

  return html`
    <${Head} title="Mailbox" />
    <${Split} open=${id} list=${list} detail=${detail} />`;
}

/**
 * @param {{query: string, matches?: string, selected: number, disabled: boolean, canDelete: boolean,
 *   onSearch: (text: string) => void, onMarkAll: () => void, onDelete: () => void}} props
 */
function Toolbar({ query, matches, selected, disabled, canDelete, onSearch, onMarkAll, onDelete }) {
  let label = query ? 'Delete all messages that match' : 'Delete all messages';
  if (selected > 0) label = 'Delete the selected messages';
  return html`
    <div class="filters">
      <${Search} value=${query} hint="Address, subject, words, code, to:, from:" matches=${matches} onSearch=${onSearch} />
      <${Button} icon="check" label="Mark all as read" disabled=${disabled} onClick=${onMarkAll} />
      <${Button} icon="trash" label=${label} disabled=${disabled || !canDelete}
        onClick=${onDelete}>${selected > 0 && String(selected)}<//>
    </div>`;
}

/** @param {MessageSummary} message */
const subjectOf = (message) => message.subject || '(no subject)';

/** @param {MessageSummary} message */
const messageRow = (message) => html`
  <div class="line">
    <span class="strong" dir="auto">${subjectOf(message)}</span>
    ${message.attachments > 0 && html`
      <${Icon} name="attachment" />
      <span class="sr">${count(message.attachments, 'attachment')}</span>`}
    <${Time} at=${message.createdAt} />
  </div>
  <div class="line">
    <span><bdi>${nameOf(message.from)}</bdi> to ${message.recipient}</span>
    ${message.direction === 'incoming' && html`<${Badge} value="received" />`}
  </div>
  <div class="line second"><span dir="auto">${message.preview || '(no text)'}</span></div>
  ${!isRead(message.id) && html`<span class="sr">unread</span>`}`;

/** The messages whose boxes are checked. A new search clears them. @param {string} query */
function useSelection(query) {
  const [ids, setIds] = useState(/** @type {Set<string>} */ (new Set()));
  const clear = () => setIds(new Set());
  useEffect(clear, [query]);
  const toggle = (/** @type {string} */ id) => setIds((old) => {
    const changed = new Set(old);
    if (!changed.delete(id)) changed.add(id);
    return changed;
  });
  return { ids, toggle, clear };
}

/** @param {string[]} ids */
async function remove(ids) {
  for (const id of ids) await api.del(`/_sandbox/messages/${id}`);
  forget(ids);
}

const REST = 'This cannot be undone. Emails with their statuses, webhooks, deliveries, domains and templates stay.';

/** @param {number} selected @param {() => Promise<void>} run */
const askForSelected = (selected, run) => ({
  title: `Delete ${count(selected, 'selected message')}?`, text: REST, action: 'Delete', danger: true, run,
});

/** @param {{count: number, query: string, areShown: boolean, run: () => Promise<void>}} all */
function askForAll({ count: total, query, areShown, run }) {
  let title = total === 1 ? 'Delete the only message?' : `Delete all ${total} messages?`;
  if (query) title = `Delete ${count(total, 'message')} that ${total === 1 ? 'matches' : 'match'} ${query}?`;
  const text = areShown ? REST : `This includes messages not shown. ${REST}`;
  return { title, text, action: 'Delete', danger: true, run };
}

/** @param {{searched: string}} props */
function Nothing({ searched }) {
  if (searched) return html`<${Empty} title="No message matches">Search for a part of an address, a name, words or a
    code, or use <code>to:</code>, <code>from:</code>, <code>subject:</code> and <code>after:</code>.<//>`;
  return html`<${Empty} title="The mailbox is empty"><${MailHint} /><//>`;
}

/**
 * @param {{id: string, tab?: string, q: string, previous?: () => void, next?: () => void, onDelete: () => void,
 *   onRead: () => void}} props
 */
function MessageView({ id, tab, q, previous, next, onDelete, onRead }) {
  const { data: message, error } = useResource(() => api.get(`/_sandbox/messages/${id}`), [id,
    api.selectedOrganization()]);
  useEffect(() => {
    if (!message) return;
    markRead(id);
    onRead();
  }, [message?.id]);
  const action = useAction();
  const page = useContext(Page);
  const [releasing, setReleasing] = useState(false);
  const open = () => action(() => api.post(`/_sandbox/emails/${message?.emailId}/events`, { event: 'opened',
    recipient: message?.recipient }), 'The email counts as opened');
  const bar = html`<${Bar} back=${href('mailbox', '', { q })}>
    <${Button} kind="quiet" icon="up" label="Previous message (k)" disabled=${!previous} onClick=${previous} />
    <${Button} kind="quiet" icon="down" label="Next message (j)" disabled=${!next} onClick=${next} />
    <span class="spacer"></span>
    <${Copy} text=${id} label="Copy ID" />
    <${Button} kind="quiet" icon="trash" label="Delete the message" onClick=${onDelete} />
    <${Button} kind="quiet" icon="download" label="Download the source" onClick=${() => action(async () =>
      save(await api.blob(`/_sandbox/messages/${id}/raw`), `${id}.eml`))} />
    ${message && html`<${Button} title="Send this message to a real address" onClick=${() =>
      setReleasing(true)}>Release…<//>`}
    ${message?.emailId && html`<a class="button" href=${href('emails', message.emailId)}
      title="Requests, statuses and deliveries of the email">Story</a>`}
  <//>`;
  if (error) return html`<div class="detail-head">${bar}</div><${Failure} error=${error} />`;
  if (!message) return html`<div class="detail-head">${bar}</div><p class="loading">Loading…</p>`;
  /** @type {[string, string, number?][]} */
  const tabs = [];
  if (message.html !== null) tabs.push(['html', 'HTML']);
  if (message.text !== null) tabs.push(['text', 'Text']);
  if (message.links.length + message.codes.length > 0) tabs.push(['links', 'Links and codes',
    message.links.length + message.codes.length]);
  if (message.attachments.length > 0) tabs.push(['attachments', 'Attachments', message.attachments.length]);
  tabs.push(['headers', 'Headers'], ['checks', 'Checks']);
  if (message.html !== null) tabs.push(['compatibility', 'Compatibility']);
  tabs.push(['source', 'Source']);
  const shown = tabs.some(([one]) => one === tab) ? /** @type {string} */ (tab) : tabs[0][0];
  const label = tabs.find(([one]) => one === shown)?.[1];
  return html`
    <div class="detail-head">${bar}
      <${Subject} text=${message.subject} />
      <${Facts} rows=${[['From', message.from], ['To', message.to.join(', ')], ['Cc', message.cc.join(', ')],
        ['Reply-To', header(message, 'reply-to').replace(/^<(.*)>$/, '$1')], ['Delivered to', message.to.length === 1 && message.cc.length === 0 &&
          addressOf(message.to[0]) === message.recipient ? null : message.recipient],
        ['Date', html`<${Time} at=${message.createdAt} /> <span class="muted">· ${size(message.size)}</span>`],
        ['Tags', message.tags && Object.keys(message.tags).length > 0 ? html`<span
          class="actions">${Object.entries(message.tags).map(([name, value]) => html`<${Badge}
            value=${`${name}=${value}`} />`)}</span>` : null]]} />
    </div>
    <${Tabs} label="Parts of the message" tabs=${tabs} value=${shown} onChange=${(/** @type {string} */ one) =>
      go(href('mailbox', id, { q, tab: one }), true)} />
    <div class="detail-body" role="tabpanel" tabindex="0" aria-label=${label}>
      ${shown === 'html' && html`<${HtmlView} content=${message.html} title=${`HTML of ${message.subject}`}
        images=${() => embedded(message)}>${message.emailId && html`<${Button} kind="small"
          title="Looking at the message on this page does not count as opening it" onClick=${open}>Simulate opening<//>`}<//>`}
      ${shown === 'text' && html`<div class="text-body" dir="auto" tabindex="0"><${Linked}
        text=${message.text ?? ''} /></div>`}
      ${shown === 'links' && html`<${Links} message=${message} />`}
      ${shown === 'attachments' && html`<${Attachments} message=${message} />`}
      ${shown === 'headers' && html`<div class="pad"><${Headers} headers=${message.headers} /></div>`}
      ${shown === 'checks' && html`<${Checks} message=${message} />`}
      ${shown === 'compatibility' && html`<${Compatibility} of=${id} load=${(/** @type {string} */ programs) =>
        api.get(`/_sandbox/messages/${id}/html-check`, { programs })} />`}
      ${shown === 'source' && html`<${Source} id=${id} />`}
    </div>
    ${releasing && html`<${FormDialog} title="Release the message" action="Send" onClose=${() => setReleasing(false)}
      onSubmit=${async (/** @type {import('../lib/ui.js').Values} */ { to }) => {
        const path = /** @type {string} */ (`/_sandbox/messages/${id}/release`);
        await api.post(path, { to });
        page.toast(`The message goes to ${to}`);
      }}><p>The message goes through the relay to a real address. The server needs a relay that allows it: options
        --relay and --relay-to.</p>
      <${Field} label="To"><input name="to" type="email" required autofocus /><//><//>`}`;
}

/** A field of the header of a message, or nothing. @param {Message} message @param {string} name */
function header({ headers }, name) {
  const found = Object.entries(headers).find(([one]) => one.toLowerCase() === name);
  return found ? String(found[1]) : '';
}

/** @param {Message} message @param {number} n */
const attachmentPath = (message, n) => `/_sandbox/messages/${message.id}/attachments/${n + 1}`;

/** The positions of the attachments that the HTML part shows. @param {Message} message */
function shownIn(message) {
  /** @type {Set<string>} */
  const ids = new Set();
  replaceEmbedded(message.html ?? '', (id) => void ids.add(id));
  return [...message.attachments.keys()].filter((n) => {
    const { contentId: id } = message.attachments[n];
    return id && ids.has(contentId(id));
  });
}

/** The images that the HTML part shows, by their Content-ID. @param {Message} message */
async function embedded(message) {
  /** @type {Record<string, string>} */
  const found = Object.create(null);
  await Promise.all(shownIn(message).filter((n) => imageType(message.attachments[n])).map(async (n) => {
    const picture = await load(message, n);
    if (!picture.isTooLarge) found[contentId(message.attachments[n].contentId ?? '')] ??= picture.url;
  }));
  return found;
}

/** Names of images that a browser shows without running anything in them, by what mail programs call them. */
const IMAGES = /^(?:image\/(?:x-)?(png|jpeg|gif|webp|avif|bmp|icon)|image\/p?(jpe?g)|image\/vnd\.microsoft\.(icon))$/i;

/** The media type of an image, in the spelling of browsers. @param {Message['attachments'][0]} attachment */
function imageType({ contentType, filename }) {
  const isUnknown = contentType === 'application/octet-stream';
  const suffix = isUnknown ? /\.(\w+)$/.exec(filename ?? '')?.[1] : undefined;
  const [, ...names] = IMAGES.exec(suffix ? `image/${suffix}` : contentType) ?? [];
  const name = names.find(Boolean)?.toLowerCase();
  if (!name) return undefined;
  return `image/${name === 'icon' ? 'x-icon' : name.startsWith('jp') ? 'jpeg' : name}`;
}

/** A picture with more pixels is not shown: a small file may need gigabytes when it is decoded. */
const MAX_PIXELS = 50e6;

/** Loads an attached image. Its size is known before it is decoded. @param {Message} message @param {number} n */
async function load(message, n) {
  const content = await api.blob(attachmentPath(message, n));
  const url = await /** @type {Promise<string>} */ (new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(String(reader.result));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(new Blob([content], { type: imageType(message.attachments[n]) }));
  }));
  const picture = new Image();
  await new Promise((done, failed) => {
    picture.onload = done;
    picture.onerror = failed;
    picture.src = url;
  });
  const { naturalWidth: width, naturalHeight: height } = picture;
  return { url, width, height, isTooLarge: width * height > MAX_PIXELS };
}

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = document.createElement('a');
  // The type keeps a browser from showing the content as a page of this origin.
  link.href = URL.createObjectURL(new Blob([blob], { type: 'application/octet-stream' }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {{message: Message}} props */
function Links({ message }) {
  return html`<div class="pad">
    ${message.codes.length > 0 && html`<${Section} title="One-time codes"><div
      class="actions">${message.codes.map((code) => html`<${Copy} text=${code} label=${`Copy ${code}`}><span
        class="mono">${code}</span><//>`)}</div><//>`}
    ${message.links.length > 0 && html`<${Section} title="Links"><div
      class="table-box"><table><thead><tr><th>Text</th><th>Leads to</th><th><span
        class="sr">Copy</span></th></tr></thead><tbody>${message.links.map((link) => html`<tr><td
        dir="auto">${link.text ?? html`<span class="muted">none</span>`}</td><td class="mono"><${Linked}
          text=${link.url} />${link.tracked_url && html`<div class="muted">tracked: <${Linked}
          text=${link.tracked_url} /></div>`}</td><td class="right"><${Copy} text=${link.url}
            label="Copy URL" /></td></tr>`)}</tbody></table></div><//>`}
  </div>`;
}

/** @param {{message: Message}} props */
function Attachments({ message }) {
  return html`<div class="pad"><div class="tiles">${message.attachments.map((one, n) => html`<${Attachment} key=${n}
    message=${message} one=${one} n=${n} />`)}</div></div>`;
}

/** @param {{message: Message, one: import('control').MessageAttachment, n: number}} props */
function Attachment({ message, one, n }) {
  const action = useAction();
  const [picture, setPicture] = useState(/** @type {Awaited<ReturnType<typeof load>> | null} */ (null));
  const [notice, setNotice] = useState('');
  const name = one.filename ?? `attachment ${n + 1}`;
  useEffect(() => {
    if (!imageType(one) || one.size > 5 << 20) return;
    let current = true;
    load(message, n).then((loaded) => {
      if (!current) return;
      if (loaded.isTooLarge) setNotice(`${loaded.width} × ${loaded.height} pixels: too large to preview`);
      else setPicture(loaded);
    }, () => current && setNotice('This browser cannot show the image.'));
    return () => { current = false; };
  }, []);
  return html`<div class="tile">
    <div class="tile-image">${picture ? html`<img src=${picture.url} alt=${name} />` : html`<${Icon}
      name="attachment" />`}</div>
    <div class="tile-text"><div><div dir="auto">${name}</div><small>${one.contentType} · ${size(one.size)}</small>${
      notice && html`<small>${notice}</small>`}</div>
      <${Button} kind="quiet" icon="download" label=${`Download ${name}`} onClick=${() => action(async () =>
        save(await api.blob(attachmentPath(message, n)), name))} /></div>
  </div>`;
}

/** @param {{headers: Record<string, unknown>}} props */
export function Headers({ headers }) {
  return html`<div class="table-box" tabindex="0"><table><thead><tr><th>Name</th><th>Value</th></tr></thead><tbody>
    ${Object.entries(headers).flatMap(([name, value]) => String(value).split('\n').map((one) => html`<tr><td
      class="nowrap">${name}</td><td class="mono" dir="auto">${one}</td></tr>`))}
  </tbody></table></div>`;
}

/** @param {{id: string}} props */
function Source({ id }) {
  const { data, error } = useResource(() => api.text(`/_sandbox/messages/${id}/raw`), [id]);
  if (error) return html`<${Failure} error=${error} />`;
  return html`<div class="pad">${data === null ? html`<p class="muted">Loading…</p>` : html`<${Code} text=${data}
    label="Source" />`}</div>`;
}

/**
 * Whether a signature of one domain stands for a sender in the other (relaxed alignment): they are
 * the same, or one is above the other.
 * @param {string} domain @param {string} signer
 */
export const isAligned = (domain, signer) =>
  domain === signer || domain.endsWith(`.${signer}`) || signer.endsWith(`.${domain}`);

/** What the message says about its sender, its list, and its content. @param {{message: Message}} props */
function Checks({ message }) {
  const domain = addressOf(message.from).split('@')[1]?.toLowerCase() ?? '';
  /** @type {[string, string, import('../lib/ui.js').Children][]} */
  const rows = [];
  const verdicts = message.authentication;
  if (verdicts) {
    const { spf, dkim } = verdicts;
    rows.push(['SPF', spf, '']);
    rows.push(['DKIM', dkim.result, dkim.domain ? html`of <code>${dkim.domain}</code>${dkim.aligned ? '' :
      ', which is not the domain in From'}` : '']);
  }
  const signature = header(message, 'dkim-signature');
  const tag = (/** @type {string} */ name) =>
    new RegExp(`(?:^|;)\\s*${name}=([^;]*)`).exec(signature)?.[1].replace(/\s+/g, '') ?? '';
  if (signature) {
    const aligned = isAligned(domain, tag('d').toLowerCase());
    rows.push(['DKIM signature', 'present', html`of <code>${tag('d')}</code>, selector <code>${tag('s')}</code>`]);
    rows.push(['DMARC alignment', aligned ? 'pass' : 'fail', aligned ? 'The signature is of the domain in From.' :
      html`The signature is of <code>${tag('d')}</code>, the sender of <code>${domain}</code>.`]);
  } else if (!verdicts) rows.push(['DKIM signature', 'none', 'The message is not signed.']);
  const list = header(message, 'list-unsubscribe');
  if (list) {
    const https = /<https:[^>]*>/i.test(list);
    const oneClick = /^\s*List-Unsubscribe=One-Click\s*$/i.test(header(message, 'list-unsubscribe-post'));
    const signed = tag('h').toLowerCase().split(':').includes('list-unsubscribe');
    rows.push(['List-Unsubscribe', https ? 'pass' : 'fail', html`<code>${list}</code>${https ? '' :
      ' has no https URL.'}`]);
    rows.push(['One-click', oneClick && https ? 'pass' : 'fail', oneClick ?
      'List-Unsubscribe-Post is present (RFC 8058).' :
        'List-Unsubscribe-Post: List-Unsubscribe=One-Click is missing (RFC 8058).']);
    if (signature) rows.push(['Signed', signed ? 'pass' : 'fail', signed ?
      'The DKIM signature covers List-Unsubscribe.' :
        'The DKIM signature does not cover List-Unsubscribe, as RFC 8058 requires.']);
  } else rows.push(['List-Unsubscribe', 'none',
    'Mail that people subscribed to needs this header; transactional mail does not.']);
  rows.push(['Text part', message.text?.trim() ? 'pass' : 'fail', message.text?.trim() ?
    'For readers that show no HTML.' : 'There is no text part.']);
  if (message.html !== null) {
    const content = parse(message.html);
    const pictures = content.querySelectorAll('img');
    const without = content.querySelectorAll('img:not([alt])').length;
    const pixels = remoteContent(content) - remoteContent(parse(withoutPixels(message.html)));
    const remote = remoteContent(content) - pixels;
    rows.push(['Image texts', without ? 'fail' : 'pass', without ?
      `${without} of ${pictures.length} images have no alt text.` : 'Every image has an alt text.']);
    rows.push(['Remote content', remote ? String(remote) : 'pass', remote ?
      'Images or styles that load from elsewhere, which many mail programs block.' : pixels ?
        'Nothing loads from elsewhere but the pixel that counts openings.' : 'Nothing loads from elsewhere.']);
    const bytes = new TextEncoder().encode(message.html).length;
    rows.push(['HTML size', bytes > 102 * 1024 ? 'fail' : 'pass', `${size(bytes)}${bytes > 102 * 1024 ?
      '; Gmail cuts messages off above 102 KiB.' : ''}`]);
    const scripts = content.querySelectorAll('script').length;
    if (scripts) rows.push(['Scripts', 'fail', `${scripts} scripts, which mail programs remove.`]);
  }
  return html`<div class="pad"><div class="table-box"
    tabindex="0"><table><thead><tr><th>Check</th><th>Result</th><th>Detail</th></tr></thead><tbody>
    ${rows.map(([name, result, detail]) => html`<tr><td class="nowrap">${name}</td><td><${Badge}
      value=${result} /></td><td>${detail}</td></tr>`)}
  </tbody></table></div></div>`;
}
