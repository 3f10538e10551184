// The log of requests to the documented operations.

import { useMemo } from 'preact/hooks';
import * as api from '../lib/api.js';
import { matchesOf, useList, useResource } from '../lib/data.js';
import { go, href } from '../lib/route.js';
import { duration, pretty, search, size } from '../lib/text.js';
import { Badge, Bar, Code, Copy, Empty, Facts, Failure, Head, List, Search, Section, Split, Time, html,
  valueOf } from '../lib/ui.js';

/** @typedef {import('control').LoggedRequest} LoggedRequest */

const WORDS = ['operation', 'status', 'key', 'after'];

/** @param {{route: import('../lib/route.js').Route}} props */
export function Requests({ route }) {
  const { id } = route;
  const { q = '', status = '' } = route.params;
  const { params, problem } = useMemo(() => {
    const { params, problem } = search(q, WORDS);
    if (status) params.status = status;
    return { params, problem };
  }, [q, status]);
  const requests = useList('/_sandbox/requests', params, 'request', id);
  const failed = problem ?? requests.error;
  const back = href('requests', '', { q, status });
  const list = html`
    <div class="filters"><${Search} value=${q} hint="Operation, address, words, status:, key:, after:" matches=${matchesOf(requests)}
      onSearch=${(/** @type {string} */ text) => go(href('requests', id, { q: text, status }), true)} />
      <select aria-label="Status" value=${status} onChange=${(/** @type {Event} */ event) =>
        go(href('requests', id, { q, status: valueOf(event) }), true)}>
        <option value="">Any status</option>${['2xx', '4xx', '5xx'].map((one) => html`<option
          value=${one}>${one}</option>`)}
      </select></div>
    ${failed && html`<${Failure} error=${failed} retry=${problem ? undefined : requests.refresh} />`}
    ${problem ? '' : requests.loaded && requests.items.length === 0 && !failed
      ? html`<${Empty} title=${q || status ? 'No request matches' : 'No request came in yet'}>The log holds the newest
        10,000 requests since the server started.<//>`
      : html`<${List} label="Requests" items=${requests.items} height=${58} selected=${id} back=${back}
        onEnd=${requests.more} linkOf=${(/** @type {LoggedRequest} */ item) => href('requests', item.id, { q,
          status })}
        row=${(/** @type {LoggedRequest} */ item) => html`<div class="line"><span
          class="strong">${item.operation}</span><${Badge} value=${item.status} /></div>
          <div class="line second"><span class="mono">${item.method} ${item.path}</span><span
            class="tail">${duration(item.durationMs)}</span><${Time} at=${item.startedAt} /></div>`} />`}`;
  return html`<${Head} title="Requests" />
    <${Split} open=${id} list=${list} detail=${id ? html`<${Detail} key=${id} id=${id} back=${back} />` :
      html`<${Empty} title="No request is open">Requests to the operations of both services appear as they come
        in.<//>`} />`;
}

/** @param {{id: string, back: string}} props */
function Detail({ id, back }) {
  const { data: request, error } = useResource(() => api.get(`/_sandbox/requests/${id}`), [id,
    api.selectedOrganization()]);
  const bar = html`<${Bar} back=${back}><code class="muted">${id}</code><${Copy} text=${id} label="Copy ID" /><//>`;
  if (error) return html`<div class="detail-head">${bar}</div><${Failure} error=${error.status === 404 ?
    { message: 'The log no longer has this request. It holds the newest 10,000 requests since the server started.' } :
      error} />`;
  if (!request) return html`<div class="detail-head">${bar}</div><p class="loading">Loading…</p>`;
  return html`<div class="detail-head">${bar}<h2>${request.operation}</h2></div><div class="detail-body"><div
    class="pad"><${Exchange} request=${request} /></div></div>`;
}

/** A request and its response. @param {{request: LoggedRequest}} props */
export function Exchange({ request }) {
  const email = /"id"\s*:\s*"(eml_[0-9a-f-]{36})"/.exec(request.responseBody?.text ?? '')?.[1];
  return html`
    <${Facts} rows=${[['Request', html`<code>${request.method} ${request.path}</code>`], ['Status', html`<${Badge}
      value=${request.status} label=${request.status ?? 'no response: the connection was cut'} />`],
      ['Time', html`<${Time} at=${request.startedAt} /> <span
        class="muted">· took ${duration(request.durationMs)}</span>`], ['Key', request.key &&
          html`<code>${request.key}</code>`],
      ['Fault', request.fault && html`<a href=${href('faults')}>${request.fault}</a>`], ['Idempotency key',
        request.idempotencyKey && html`<code>${request.idempotencyKey}</code>`], ['Client', request.userAgent],
      ['Email', email && html`<a href=${href('emails', email)}>${email}</a>`]]} />
    <${Body} title="Request body" body=${request.requestBody} />
    <${Body} title="Response body" body=${request.responseBody} />`;
}

/** @param {{title: string, body?: import('control').RecordedBody | null}} props */
function Body({ title, body }) {
  if (!body) return null;
  return html`<${Section} title=${title} actions=${html`<span class="muted">${size(body.size)}${body.truncated ?
    ', the first 4 KiB' : ''}</span>`}><${Code} label=${title} wrap text=${pretty(body.text)} /><//>`;
}
