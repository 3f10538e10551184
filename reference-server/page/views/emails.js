// Emails in every status, and the story of each.

import { useEffect, useMemo, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { bodyOf, callsOf } from '../lib/calls.js';
import { matchesOf, useList, useResource } from '../lib/data.js';
import { go, href } from '../lib/route.js';
import { addressOf, duration, search } from '../lib/text.js';
import { Badge, Bar, Button, Choice, Code, Copy, Due, Empty, Facts, Failure, Head, List, Search, Section, Split,
  Subject, Tabs, Time, html, tone, useAction, valueOf } from '../lib/ui.js';
import { DeliveryCard } from './deliveries.js';
import { NewKeyButton, SendHint, useCaller } from './keys.js';
import { Exchange } from './requests.js';
import { Missing, changesWebhooks } from './webhooks.js';

/** @typedef {import('control').EmailStory} EmailStory */
/** @typedef {EmailStory['email']} EmailSummary */

const WORDS = ['status', 'address', 'subject', 'tag', 'after', 'before'];
const STATUSES = ['scheduled', 'queued', 'sending', 'sent', 'delivered', 'bounced', 'failed', 'complained',
  'cancelled'];

/** @param {{route: import('../lib/route.js').Route}} props */
export function Emails({ route }) {
  const { id } = route;
  const { q = '', status = '' } = route.params;
  const { params, problem } = useMemo(() => {
    const { params, problem } = search(q, WORDS);
    // Scheduled emails are those that are queued until their time.
    if (status) params.status = status === 'scheduled' ? 'queued' : status;
    return { params, problem };
  }, [q, status]);
  const emails = useList('/_sandbox/emails', params, 'email', id);
  const items = useMemo(() => (status === 'scheduled' ? emails.items.filter(isScheduled) : emails.items),
    [emails.items, status]);
  useEffect(() => {
    if (items.length === 0) emails.more();
  }, [items, emails.next]);
  const failed = problem ?? emails.error;
  const back = href('emails', '', { q, status });
  const list = html`
    <div class="filters"><${Search} value=${q} hint="Address, subject, words, tag:, after:" matches=${matchesOf(emails)}
      onSearch=${(/** @type {string} */ text) => go(href('emails', id, { q: text, status }), true)} />
      <select aria-label="Status" value=${status} onChange=${(/** @type {Event} */ event) =>
        go(href('emails', id, { q, status: valueOf(event) }), true)}>
        <option value="">Any status</option>${STATUSES.map((one) => html`<option value=${one}>${one}</option>`)}
      </select></div>
    ${failed && html`<${Failure} error=${failed} retry=${problem ? undefined : emails.refresh} />`}
    ${problem ? '' : emails.loaded && items.length === 0 && !emails.next && !failed
      ? html`<${Empty} title=${q || status ? 'No email matches' : 'No email was sent yet'}>${!(q || status) &&
        html`<${SendHint} />`}<//>`
      : html`<${List} label="Emails" items=${items} height=${58} selected=${id} back=${back}
        onEnd=${emails.more} linkOf=${(/** @type {EmailSummary} */ item) => href('emails', item.id, { q, status })}
        row=${(/** @type {EmailSummary} */ item) => html`<div class="line"><span class="strong"
          dir="auto">${item.subject || '(no subject)'}</span><${Time} at=${item.createdAt} /></div>
          <div class="line second"><span dir="auto">${item.to[0]}${item.to.length > 1 ?
            ` and ${item.to.length - 1} more` : ''}</span><${Status} email=${item} /></div>`} />`}`;
  return html`<${Head} title="Emails" />
    <${Split} open=${id} list=${list} detail=${id ? html`<${Story} key=${id} id=${id} tab=${route.params.tab}
      back=${back} keep=${{ q, status }} />`
    : html`<${Empty} title="No email is open">An email shows its request, its statuses, its messages and its
      deliveries.<//>`} />`;
}

/** @param {EmailSummary} email */
const isScheduled = ({ status, scheduledAt }) => status === 'queued' && scheduledAt !== null;

/** @param {{email: EmailSummary}} props */
function Status({ email }) {
  return html`<${Badge} value=${email.status} label=${isScheduled(email) ? 'scheduled' : undefined} />`;
}

/** @param {{id: string, tab?: string, back: string, keep: Record<string, string>}} props */
function Story({ id, tab = 'story', back, keep }) {
  const { data: story, error } = useResource(() => api.get(`/_sandbox/emails/${id}/story`), [id,
    api.selectedOrganization()],
    (event) => (event.type === 'email' && event.id === id) || (event.type === 'message' && event.emailId === id) ||
      event.type === 'delivery' || event.type === 'attempt' || changesWebhooks(event));
  const bar = html`<${Bar} back=${back}>
    <code class="muted">${id}</code><${Copy} text=${id} label="Copy ID" /><span class="spacer"></span>${story &&
      html`<${Again} story=${story} /><${Status} email=${story.email} />`}<//>`;
  if (error) return html`<div class="detail-head">${bar}</div><${Failure} error=${error} />`;
  if (!story) return html`<div class="detail-head">${bar}</div><p class="loading">Loading…</p>`;
  const { email } = story;
  /** @type {[string, string, number?][]} */
  const tabs = [['story', 'Story'], ['deliveries', 'Deliveries', story.deliveries.length], ['request', 'Request'],
    ['calls', 'Call']];
  const shown = tabs.some(([one]) => one === tab) ? tab : 'story';
  return html`
    <div class="detail-head">${bar}
      <${Subject} text=${email.subject} />
      <${Facts} rows=${[['From', email.from], ['To', email.to.join(', ')], ['Cc', email.cc?.join(', ')], ['Bcc',
        email.bcc?.join(', ')], ['Reply-To', email.replyTo?.join(', ')], ['Template', email.templateId && html`<a href=${href('templates',
          email.templateId)}>${email.templateId}</a>`],
        ['Scheduled', email.scheduledAt && html`<span class="actions">${isScheduled(email) ?
          html`<span><${Due} at=${email.scheduledAt} /></span><${Waiting} id=${id} />` :
            html`<${Time} at=${email.scheduledAt} />`}</span>`],
        ['Tags', Object.keys(email.tags ?? {}).length > 0 && html`<span
          class="actions">${Object.entries(email.tags).map(([name, value]) => html`<${Badge}
            value=${`${name}=${value}`} />`)}</span>`]]} />
    </div>
    <${Tabs} label="Parts of the story" tabs=${tabs} value=${shown} onChange=${(/** @type {string} */ one) =>
      go(href('emails', id, { ...keep, tab: one }), true)} />
    <div class="detail-body" role="tabpanel" tabindex="0" aria-label=${tabs.find(([one]) => one === shown)?.[1]}><div
      class="pad">
      ${shown === 'story' && html`<${Simulate} story=${story} />
        <${Section} title="Time line"><${Timeline} story=${story} /><//>
        <${Section} title="Recipients"><${Recipients} story=${story} /><//>`}
      ${shown === 'deliveries' && html`<div class="stack"><${Missing} story=${story} />${story.deliveries.map((one) =>
        html`<${DeliveryCard} key=${one.id} delivery=${one} />`)}</div>`}
      ${shown === 'request' && (story.request ? html`<${Exchange} request=${story.request} />` : html`<p
        class="muted">The log of requests no longer has the request of this email. It holds the newest 10,000 requests
          since the server started.</p>`)}
      ${shown === 'calls' && html`<${Calls} story=${story} />`}
    </div></div>`;
}

/** What can be done with an email that waits for its time. @param {{id: string}} props */
function Waiting({ id }) {
  const action = useAction();
  return html`<${Button} kind="small" onClick=${() => action(() => api.post(`/_sandbox/emails/${id}/send`),
    'The email is sent')}>Send now<//><${Button} kind="small" onClick=${() => action(() => api.documented('PATCH',
      `/api/v1/emails/${id}/cancel`), 'The email is cancelled')}>Cancel it<//>`;
}

/** Sends the same email once more. @param {{story: EmailStory}} props */
function Again({ story }) {
  const action = useAction();
  return html`<${Button} icon="replay" title="Send this email again, as a new one" onClick=${() => action(async () => {
    const { body, lacks } = await bodyOf(story);
    if (lacks) throw new Error(`The email cannot be sent again. ${lacks}`);
    const { id } = await api.documented('POST', '/api/v1/emails', body);
    go(href('emails', id));
  }, 'The email was sent again, as a new one')}>Send again<//>`;
}

/** What can be simulated, and in which statuses of a recipient.
 * @type {{event: import('control').EmailEvent['event'], label: string, from: string[]}[]} */
const EVENTS = [
  { event: 'delivered', label: 'Deliver', from: ['sending', 'sent'] },
  { event: 'bounced', label: 'Bounce', from: ['sending', 'sent', 'delivered'] },
  { event: 'opened', label: 'Open', from: ['delivered', 'complained'] },
  { event: 'clicked', label: 'Click', from: ['delivered', 'complained'] },
  { event: 'complained', label: 'Complain', from: ['delivered'] },
  { event: 'failed', label: 'Fail', from: ['sending'] },
];

/** Makes something happen to the email. @param {{story: EmailStory}} props */
function Simulate({ story }) {
  const action = useAction();
  const [recipient, setRecipient] = useState('');
  const happen = (/** @type {import('control').EmailEvent['event']} */ event) => action(async () => {
    /** @type {import('control').EmailEvent} */
    const body = { event };
    if (recipient) body.recipient = recipient;
    await api.post(`/_sandbox/emails/${story.email.id}/events`, body);
  }, `Marked as ${event}`);
  const concerned = story.recipients.filter((one) => !recipient || one.address === recipient);
  const statuses = [...new Set(concerned.map((one) => one.status))].join(' or ');
  const isPossible = (/** @type {string[]} */ from) => concerned.some((one) => from.includes(one.status));
  const impossible = EVENTS.filter(({ from }) => !isPossible(from));
  const reason = (/** @type {string[]} */ from) => `Only possible while a recipient is ${from.join(' or ')}; now: ${
    statuses}`;
  return html`<${Section} title="Simulate" actions=${story.recipients.length > 1 && html`<select aria-label="Recipient"
    style=${{ width: 'auto' }} value=${recipient} onChange=${(/** @type {Event} */ event) =>
      setRecipient(valueOf(event))}>
      <option value="">All recipients</option>${story.recipients.map((one) => html`<option
        value=${one.address}>${one.address}</option>`)}</select>`}>
    <div class="actions">${EVENTS.map(({ event, label, from }) => html`<${Button} key=${event}
      disabled=${!isPossible(from)} title=${isPossible(from) ? undefined : reason(from)} onClick=${() =>
        happen(event)}>${label}<//>`)}</div>
    ${impossible.length > 0 && html`<p class="muted">Not possible while ${story.recipients.length > 1 && !recipient ?
      'the recipients are' : 'the recipient is'} ${statuses}: ${impossible.map(({ label }) => label).join(', ')}.</p>`}
  <//>`;
}

/** @param {{story: EmailStory}} props */
function Timeline({ story }) {
  const start = Date.parse(story.timeline[0]?.at ?? story.email.createdAt);
  return html`<ol class="timeline">${story.timeline.map((entry, n) => {
    const after = Date.parse(entry.at) - start;
    const word = entry.event ? entry.event.replace('email.', '') : entry.status;
    return html`<li key=${n} class=${tone(word)}><div><strong>${n === 0 && !entry.event ? 'accepted' :
      word}</strong>${entry.recipient && html` <span class="muted">${entry.recipient}</span>`}</div><span
        class="tail muted">${after > 0 ? `+${duration(after)} · ` : ''}<${Time} at=${entry.at} /></span></li>`;
  })}</ol>`;
}

/** @param {{story: EmailStory}} props */
function Recipients({ story }) {
  const message = (/** @type {string} */ address) => story.messages.find((one) => one.recipient === address ||
    one.recipient === addressOf(address));
  return html`<div class="table-box"
    tabindex="0"><table class="stacked"><thead><tr><th>Address</th><th>Status</th><th>Message</th></tr></thead><tbody>
    ${story.recipients.map((one) => {
      const found = message(one.address);
      const reason = typeof one.detail === 'string' ? one.detail : one.detail?.reason;
      return html`<tr key=${one.address}><td>${one.address}</td><td><${Badge} value=${one.status} />${reason &&
        html` <small>${reason}</small>`}</td><td>${found ? html`<a href=${href('mailbox', found.id)}>Message</a>` :
          html`<span class="muted">no message</span>`}</td></tr>`;
    })}
  </tbody></table></div>`;
}

/** @param {{story: EmailStory}} props */
function Calls({ story }) {
  const { data: caller, error, reload } = useCaller();
  const { data: email, error: unknown } = useResource(() => bodyOf(story), [story.email.id, story.email.updatedAt]);
  const [shown, setShown] = useState('svc');
  if (unknown) return html`<${Failure} error=${unknown} />`;
  if (!email) return html`<p class="loading">Loading…</p>`;
  const calls = callsOf(email.body, caller);
  const call = calls.find((one) => one.id === shown) ?? calls[0];
  const isTooLong = /svc|curl/.test(call.id) && call.text.length > MAX_COMMAND;
  return html`<${Section} title="The same call">
    ${email.lacks && html`<p class="failure" role="note">This call cannot be copied. ${email.lacks}</p>`}
    ${isTooLong && html`<p class="failure" role="note">This is too long for a command line: use TypeScript or
      Python.</p>`}
    <div><${Choice} label="Language" options=${calls.map((one) => [one.id, one.name])} value=${call.id}
      onChange=${setShown} /></div>
    ${error && html`<${Failure} error=${error} />`}
    ${caller && !caller.key && html`<${NewKeyButton} done=${reload} />`}
    <${Code} label="Call" wrap text=${call.text} fixed=${Boolean(email.lacks) || isTooLong} />
  <//>`;
}

/** Linux allows an argument of 128 KiB. */
const MAX_COMMAND = 120_000;
