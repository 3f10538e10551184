// Webhooks of both services: what they subscribe to, their secrets, and what they were sent.

import { useContext, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { useResource } from '../lib/data.js';
import { go, href } from '../lib/route.js';
import { Badge, Bar, Button, Copy, Empty, Facts, Failure, Field, FormDialog, Head, List, Page, Section, Split,
  Time, html, useAction, valueOf } from '../lib/ui.js';
import { Hint } from './keys.js';

/** @typedef {import('control').SandboxWebhook} WebhookData */
/** @typedef {import('control').Delivery} Delivery */
/** @typedef {import('email').Webhook['events']} EmailEvents */

export const EVENTS = ['email.sent', 'email.delivered', 'email.bounced', 'email.opened', 'email.clicked',
  'email.complained', 'email.failed', 'email.received', 'extraction.completed', 'extraction.failed'];

/** Whether webhooks may be others now. @param {import('control').Notification} event */
export const changesWebhooks = (event) => (event.type === 'request' &&
  /\bwebhooks\.(create|update|delete)$/.test(event.operation)) ||
  (event.type === 'change' && event.resource === 'organizations');

/** The webhooks of the organization, kept current. */
const useWebhooks = () => useResource(() => api.get('/_sandbox/webhooks'), [api.selectedOrganization()],
  changesWebhooks);

/** What came of the last deliveries of each webhook, by its ID. @param {WebhookData[]} webhooks */
const useOutcomes = (webhooks) => useResource(async () => Object.fromEntries(await Promise.all(
  webhooks.slice(0, 50).map(async ({ id }) => {
    const { data } = await api.get('/_sandbox/deliveries', { webhook: id, limit: 20 });
    const last = data.map((one) => one.attempts?.at(-1)).filter((one) => one !== undefined);
    const failed = last.filter(({ status }) => status === null || status < 200 || status > 299).length;
    return [id, { tried: last.length, failed, status: last[0]?.status }];
  }))), [webhooks.map(({ id }) => id).join()], (event) => /^(delivery|attempt)$/.test(event.type)).data ?? {};

/**
 * Whether a webhook is active, and whether its last deliveries all failed.
 * @param {{active: boolean, outcome?: {tried: number, failed: number, status?: number | null}}} props
 */
function State({ active, outcome }) {
  if (!active) return html`<${Badge} value="pending" label="paused" />`;
  if (!outcome || outcome.failed === 0 || outcome.failed < outcome.tried) return html`<${Badge} value="active" />`;
  return html`<${Badge} value="failed" label=${`${outcome.failed} of ${outcome.tried} failed: ${outcome.status ??
    'no response'}`} />`;
}

/** @param {{route: import('../lib/route.js').Route}} props */
export function Webhooks({ route }) {
  const { id } = route;
  const [adding, setAdding] = useState(false);
  const webhooks = useWebhooks();
  const found = webhooks.data?.find((one) => one.id === id);
  const outcomes = useOutcomes(webhooks.data ?? []);
  const list = webhooks.error ? html`<${Failure} error=${webhooks.error} retry=${webhooks.reload} />`
    : webhooks.data?.length === 0 ? html`<${Empty} title="No webhook"><${Listen} where="above" /><//>`
    : html`<${List} label="Webhooks" items=${webhooks.data ?? []} height=${58} selected=${id} back=${href('webhooks')}
      onEnd=${() => {}} linkOf=${(/** @type {WebhookData} */ item) => href('webhooks', item.id)}
      row=${(/** @type {WebhookData} */ item) => html`<div class="line"><span class="strong">${item.url}</span><${State}
        active=${item.active} outcome=${outcomes[item.id]} /></div>
        <div class="line second"><span>${item.events.join(', ')}</span></div>`} />`;
  const add = async (/** @type {import('../lib/ui.js').Values} */ values) => {
    const events = EVENTS.filter((event) => values[event] && event.startsWith(values.service));
    const path = values.service === 'email' ? '/api/v1/webhooks' : '/v1/webhooks';
    const created = await api.documented('POST', path, { url: values.url, events });
    await webhooks.reload();
    go(href('webhooks', created.id));
  };
  return html`<${Head} title="Webhooks"><${Button} kind="primary" icon="plus" onClick=${() =>
    setAdding(true)}>New webhook<//><//>
    <${Split} open=${id} list=${list} detail=${found ? html`<${Webhook} key=${id} webhook=${found} outcome=${outcomes[id]}
      reload=${webhooks.reload} />` : id && webhooks.data ? html`<${Empty}
        title="This webhook does not exist"><a href=${href('webhooks')}>All webhooks</a><//>` :
          html`<${Empty} title="No webhook is open">A webhook shows its secret and its last deliveries.<//>`} />
    ${adding && html`<${NewWebhook} onClose=${() => setAdding(false)} onSubmit=${add} />`}`;
}

/** @param {{onClose: () => void, onSubmit: (values: import('../lib/ui.js').Values) => Promise<void>}} props */
function NewWebhook({ onClose, onSubmit }) {
  const [service, setService] = useState('email');
  return html`<${FormDialog} title="New webhook" action="Create" onClose=${onClose} onSubmit=${onSubmit}>
    <${Field} label="URL"><input name="url" type="url" required autofocus
      placeholder="http://127.0.0.1:3000/webhooks" /><//>
    <${Field} label="Service"><select name="service" value=${service} onChange=${(/** @type {Event} */ event) =>
      setService(valueOf(event))}><option>email</option><option>extraction</option></select><//>
    <fieldset class="stack"><legend>Events</legend>${EVENTS.filter((event) => event.startsWith(service)).map((event) =>
      html`<label class="check" key=${event}><input type="checkbox" name=${event}
        defaultChecked=${!/opened|clicked/.test(event)} />${event}</label>`)}</fieldset>
    ${service === 'email' && html`<p class="muted">A webhook for opened or clicked emails turns on their tracking, which
      rewrites links.</p>`}<//>`;
}

/** @param {{webhook: WebhookData, outcome: any, reload: () => Promise<void>}} props */
function Webhook({ webhook, outcome, reload }) {
  const { id, service } = webhook;
  const page = useContext(Page);
  const action = useAction();
  const [shown, setShown] = useState(false);
  const path = service === 'email' ? '/api/v1/webhooks' : '/v1/webhooks';
  const pause = () => action(async () => {
    await api.documented('PATCH', `/api/v1/webhooks/${id}`, { active: !webhook.active });
    await reload();
  }, webhook.active ? 'The webhook is paused, and gets no events until it is resumed' : 'The webhook is active');
  const test = () => action(async () => {
    const { error, durationMs: _, ...rest } = await api.documented('POST', `/api/v1/webhooks/${id}/test`);
    // A compatibility setting names the field of the status.
    const [status] = Object.values(rest);
    if (typeof status !== 'number') page.toast(`No response: ${error ?? 'the endpoint did not answer'}`, 'bad');
    else page.toast(`The endpoint responded ${status}`, status >= 200 && status < 300 ? 'good' : 'bad');
  });
  const remove = () => page.ask({ title: 'Delete the webhook?', action: 'Delete', danger: true,
    text: `${webhook.url} gets no deliveries from now on. Pending ones are dropped.`,
    run: async () => {
      await api.documented('DELETE', `${path}/${id}`);
      await reload();
      go(href('webhooks'));
    } });
  return html`<div class="detail-head"><${Bar} back=${href('webhooks')}><code class="muted">${id}</code><${Copy}
    text=${id} label="Copy ID" /><span class="spacer"></span>
    ${service === 'email' && html`<${Button} onClick=${test}>Test<//><${Button} icon=${webhook.active ? 'pause' :
      'play'} onClick=${pause}>${webhook.active ? 'Pause' : 'Resume'}<//>`}
    <${Button} kind="quiet" icon="trash" label="Delete the webhook" onClick=${remove} /><//>
    <h2>${webhook.url}</h2>
    <${Facts} rows=${[['State', html`<${State} active=${webhook.active} outcome=${outcome} />`], ['Service', service],
      ['Events', html`<span class="actions">${webhook.events.map((event) => html`<${Badge}
        value=${event} />`)}</span>`],
      ['Created', html`<${Time} at=${webhook.createdAt} />`],
      ['Secret', html`<span class="actions">${shown ? html`<code>${webhook.secret}</code>` : html`<${Button}
        kind="small" onClick=${() => setShown(true)}>Show<//>`}<${Copy} text=${webhook.secret}
          label="Copy the secret" /></span>`]]} />
    </div>
    <div class="detail-body"><div class="pad"><${LastDeliveries} id=${id} /></div></div>`;
}

/** @param {{id: string}} props */
function LastDeliveries({ id }) {
  const { data, error } = useResource(() => api.get('/_sandbox/deliveries', { webhook: id, limit: 20 }), [id],
    (event) => (event.type === 'delivery' && event.webhook === id) || event.type === 'attempt');
  if (error) return html`<${Failure} error=${error} />`;
  if (!data) return html`<p class="loading">Loading…</p>`;
  return html`<${Section} title="Last deliveries" actions=${html`<a href=${href('deliveries', '',
    { q: `webhook:${id}` })}>All deliveries</a>`}>${data.data.length === 0 ? html`<p class="muted">Nothing has been
      sent to it yet.</p>` : html`<div class="table-box" tabindex="0"><table
      class="stacked"><thead><tr><th>Event</th><th>Recipient</th>
      <th>State</th><th>Last attempt</th></tr></thead><tbody>${data.data.map((one) => {
        const last = one.attempts?.at(-1);
        return html`<tr key=${one.id}><td><a href=${href('deliveries', one.id)}>${one.event}</a></td>
          <td>${one.recipient}</td><td><${Badge} value=${one.state} /></td><td>${last ? html`<${Time}
            at=${last.startedAt} /> ${last.status ?? ''} <small>${last.error}</small>` : ''}</td></tr>`;
      })}</tbody></table></div>`}<//>`;
}

/** How to get a webhook. @param {{where: string}} props */
const Listen = ({ where }) => html`<${Hint} text=${`Create one ${where}, or forward events to an application:`}
  command=${() => 'svc --sandbox listen --forward-to http://127.0.0.1:3000/webhooks'} />`;

/**
 * Why webhooks got nothing: of an email, or of the whole organization.
 * @param {{story?: import('control').EmailStory}} props
 */
export function Missing({ story }) {
  const { data } = useWebhooks();
  if (!data) return null;
  const silent = story ? story.missing : data.map(({ id, url, events, active }) => ({ webhook: id, url,
    reason: active ? `waits for ${events.join(', ')}` : `is paused; it subscribes to ${events.join(', ')}` }));
  if (silent.length === 0 && !story?.deliveries.length) return html`<div class="stack"><p>${story ?
    'No webhook of the email service exists.' : 'No webhook exists.'}</p><${Listen} where="under Webhooks" /></div>`;
  return silent.length > 0 && html`<ul class="reasons">${silent.map(({ webhook, url, reason }) => html`<li
    key=${webhook}><a href=${href('webhooks', webhook)}>${url}</a> ${reason}.</li>`)}</ul>`;
}
