// Webhook deliveries and their attempts.

import { useMemo } from 'preact/hooks';
import * as api from '../lib/api.js';
import { matchesOf, useList, useResource } from '../lib/data.js';
import { go, href } from '../lib/route.js';
import { duration, pretty, search } from '../lib/text.js';
import { Badge, Bar, Button, Code, Copy, Due, Empty, Facts, Failure, Head, List, Search, Section, Split, Time, html,
  useAction, valueOf } from '../lib/ui.js';
import { Headers } from './mailbox.js';
import { EVENTS, Missing } from './webhooks.js';

/** @typedef {import('control').Delivery} DeliveryData */

const WORDS = ['event', 'webhook', 'state'];
/** @param {string} event */
const inFull = (event) => EVENTS.find((one) => one.split('.')[1] === event) ?? event;
const STATES = ['pending', 'delivered', 'failed', 'dropped'];

/** @param {{route: import('../lib/route.js').Route}} props */
export function Deliveries({ route }) {
  const { id } = route;
  const { q = '', state = '' } = route.params;
  const { params, problem } = useMemo(() => {
    const { params, problem } = search(q, WORDS);
    if (params.event) params.event = inFull(params.event);
    if (state) params.state = state;
    return { params, problem };
  }, [q, state]);
  const deliveries = useList('/_sandbox/deliveries', params, 'delivery', id);
  const failed = problem ?? deliveries.error;
  const back = href('deliveries', '', { q, state });
  const list = html`
    <div class="filters"><${Search} value=${q} hint="Address, subject, event, webhook:, state:" matches=${matchesOf(deliveries)}
      onSearch=${(/** @type {string} */ text) => go(href('deliveries', id, { q: text, state }), true)} />
      <select aria-label="State" value=${state} onChange=${(/** @type {Event} */ event) =>
        go(href('deliveries', id, { q, state: valueOf(event) }), true)}>
        <option value="">Any state</option>${STATES.map((one) => html`<option value=${one}>${one}</option>`)}
      </select></div>
    ${failed && html`<${Failure} error=${failed} retry=${problem ? undefined : deliveries.refresh} />`}
    ${problem ? '' : deliveries.loaded && deliveries.items.length === 0 && !failed
      ? html`<${Empty} title=${q || state ? 'No delivery matches' : 'No webhook was called yet'}>${!(q || state) &&
        html`<${Missing} />`}<//>`
      : html`<${List} label="Deliveries" items=${deliveries.items} height=${76} selected=${id} back=${back}
        onEnd=${deliveries.more} linkOf=${(/** @type {DeliveryData} */ item) => href('deliveries', item.id, { q,
          state })}
        row=${(/** @type {DeliveryData} */ item) => html`<div class="line"><span
          class="strong">${item.event}${item.recipient && ` · ${item.recipient}`}</span><${Time}
            at=${item.createdAt} /></div>
          <div class="line"><span dir="auto">${item.subject}</span></div>
          <div class="line second"><span>${urlOf(item)}</span><span
            class="tail">${item.attemptCount} ${item.attemptCount === 1 ? 'attempt' : 'attempts'}</span><${Badge}
              value=${item.state} /></div>`} />`}`;
  return html`<${Head} title="Deliveries" />
    <${Split} open=${id} list=${list} detail=${id ? html`<${Delivery} key=${id} id=${id} back=${back} />` : html`<div
      class="pad scroll"><${Chart} deliveries=${deliveries.items} /></div>`} />`;
}

/** Where the newest attempt went. @param {DeliveryData} delivery */
function urlOf(delivery) {
  return delivery.attempts?.at(-1)?.url.replace(/^https?:\/\//, '') ?? delivery.webhook;
}

/** @param {import('control').Attempt} attempt */
const succeeded = ({ status }) => status !== null && status >= 200 && status < 300;

/** When failed deliveries are attempted again. @param {number[]} schedule */
const delays = (schedule) => {
  const words = schedule.map((ms) => `${ms / 1000} s`);
  return [words.slice(0, -1).join(', '), words.at(-1)].filter(Boolean).join(' and ');
};

/** The attempts of the loaded deliveries over time, by outcome. @param {{deliveries: DeliveryData[]}} props */
function Chart({ deliveries }) {
  const schedules = useResource(() => api.get('/_sandbox/health'), []).data?.retry_delays_ms;
  const attempts = deliveries.flatMap((one) => one.attempts ?? []);
  if (attempts.length === 0) return html`<${Empty} title="No delivery is open">Open a delivery to see its
    attempts.<//>`;
  const times = attempts.map((one) => Date.parse(one.startedAt));
  const first = Math.min(...times);
  const span = Math.max(Math.max(...times) - first, 1000);
  const columns = Array.from({ length: 60 }, () => ({ good: 0, bad: 0 }));
  for (const [n, attempt] of attempts.entries()) {
    const column = columns[Math.min(59, Math.floor(((times[n] - first) / span) * 60))];
    if (succeeded(attempt)) column.good += 1;
    else column.bad += 1;
  }
  const most = Math.max(...columns.map((one) => one.good + one.bad));
  const good = attempts.filter(succeeded).length;
  const bad = attempts.length - good;
  const label = `${attempts.length} attempts over ${duration(span)}: ${good} succeeded, ${bad} failed`;
  return html`<${Section} title="Attempts of the newest deliveries">
    <svg class="chart" viewBox="0 0 600 56" preserveAspectRatio="none" role="img" aria-label=${label}>
      ${columns.map((one, n) => {
        const high = (56 * one.good) / most;
        const low = (56 * one.bad) / most;
        return html`<rect class="good" x=${n * 10} y=${56 - high} width="8" height=${high} /><rect class="bad"
          x=${n * 10} y=${56 - high - low} width="8" height=${low} />`;
      })}
    </svg>
    <div class="legend"><span class="good">${good} succeeded</span><span
      class="bad">${attempts.length - good} failed</span><span
        style=${{ marginLeft: 'auto' }}>over ${duration(span)}</span></div>
  <//><p class="muted">Open a delivery to see its attempts. ${schedules && html`The email service retries a
    failed delivery after ${delays(schedules.email)}, the extraction service after
      ${' '}${delays(schedules.extraction)}.`}</p>`;
}

/** @param {{id: string, back: string}} props */
function Delivery({ id, back }) {
  const { data: delivery, error, reload } = useResource(() => api.get(`/_sandbox/deliveries/${id}`), [id,
    api.selectedOrganization()],
    (event) => (event.type === 'delivery' && event.id === id) || (event.type === 'attempt' && event.delivery === id));
  const bar = html`<${Bar} back=${back}>
    <code class="muted">${id}</code><${Copy} text=${id} label="Copy ID" /><span class="spacer"></span>${delivery &&
      html`<${Replay} delivery=${delivery} done=${reload} />`}<//>`;
  if (error) return html`<div class="detail-head">${bar}</div><${Failure} error=${error} />`;
  if (!delivery) return html`<div class="detail-head">${bar}</div><p class="loading">Loading…</p>`;
  const email = emailOf(delivery);
  return html`<div class="detail-head">${bar}<h2>${delivery.event}</h2>
      <${Facts} rows=${[['State', html`<${Badge} value=${delivery.state} />`], ['Webhook',
        html`<a href=${href('webhooks', delivery.webhook)}>${delivery.webhook}</a>`], ['URL',
          html`<code>${delivery.attempts?.at(-1)?.url ?? ''}</code>`],
          ['Recipient', delivery.recipient], ['Subject', delivery.subject],
          ['Created', html`<${Time} at=${delivery.createdAt} />`],
        ['Next attempt', delivery.nextDueAt && html`<${Due} at=${delivery.nextDueAt} />`], ['Email', email && html`<a
          href=${href('emails', email)}>${email}</a>`]]} /></div>
    <div class="detail-body"><div class="pad">
      <${Section} title="Attempts"><${Attempts} delivery=${delivery} /><//>
      <${Section} title="Body"><${Code} label="Body" text=${pretty(delivery.body ?? '')} /><//>
    </div></div>`;
}

/** The ID of the email that the event is about. @param {DeliveryData} delivery */
function emailOf(delivery) {
  return /"(eml_[0-9a-f-]{36})"/.exec(delivery.body ?? '')?.[1];
}

/** @param {{delivery: DeliveryData, done?: () => void}} props */
function Replay({ delivery, done }) {
  const action = useAction();
  return html`<${Button} icon="replay" disabled=${delivery.state === 'pending'} onClick=${async () => {
    await action(() => api.post(`/_sandbox/deliveries/${delivery.id}/replay`), 'The delivery is attempted again');
    done?.();
  }}>Replay<//>`;
}

/** @param {{delivery: DeliveryData, brief?: boolean}} props */
function Attempts({ delivery, brief }) {
  const attempts = delivery.attempts ?? [];
  if (attempts.length === 0) return html`<p class="muted">${delivery.nextDueAt ?
    html`The first attempt is due at <${Due} at=${delivery.nextDueAt} />.` : delivery.state === 'dropped' ?
      'Never attempted: the webhook was paused or deleted first.' : delivery.emailId ?
        'It waits for the delivery before it: events of one email reach a webhook in order.' :
        'Not attempted yet.'}</p>`;
  return html`<div class="stack">${[...attempts].reverse().map((one, n) => html`<details class="attempt"
    key=${one.number} open=${n === 0 && !(brief && succeeded(one))}>
    <summary><strong>Attempt ${one.number}</strong><${Badge} value=${one.status ?? 'error'}
      label=${one.status ?? 'no response'} /><span class="spacer"></span><span
        class="muted">${duration(one.durationMs)} · <${Time} at=${one.startedAt} /></span></summary>
    <div class="inside">
      ${one.error && html`<p>No response: ${one.error}</p>`}
      ${!brief && html`<h3>Request headers</h3><${Headers} headers=${one.requestHeaders} />`}
      ${one.responseBody && html`<h3>Response body</h3><${Code} label="Response body" wrap
        text=${pretty(one.responseBody)} />`}
      ${one.responseBody === '' && html`<p class="muted">The response has no body.</p>`}
    </div></details>`)}
    ${delivery.nextDueAt && html`<p class="muted">The next attempt is due at <${Due}
      at=${delivery.nextDueAt} />.</p>`}
  </div>`;
}

/** A delivery among others. @param {{delivery: DeliveryData}} props */
export function DeliveryCard({ delivery }) {
  // A list of deliveries has no bodies of responses.
  const hasFailed = delivery.attempts?.some((one) => one.status !== null && !succeeded(one));
  const { data } = useResource(async () => (hasFailed ? api.get(`/_sandbox/deliveries/${delivery.id}`) : null),
    [delivery.id, delivery.attemptCount]);
  return html`<div class="card"><header><h2><a href=${href('deliveries',
    delivery.id)}>${delivery.event}</a></h2><${Badge} value=${delivery.state} /><${Replay}
      delivery=${delivery} /></header>
    <div class="card-body">${delivery.recipient && html`<p>${delivery.recipient}</p>`}<code
      class="muted">${urlOf(delivery)}</code><${Attempts} delivery=${{ ...delivery,
        attempts: data?.attempts ?? delivery.attempts }} brief /></div></div>`;
}
