// What happens next, by the clock of the server.

import { useContext, useEffect } from 'preact/hooks';
import * as api from '../lib/api.js';
import { useResource } from '../lib/data.js';
import { href } from '../lib/route.js';
import { count, duration } from '../lib/text.js';
import { Badge, Button, Empty, Failure, Frozen, Head, Section, Time, html, useAction } from '../lib/ui.js';
import { useAdvance } from './clock.js';

/** @typedef {import('control').Due} Work */

const DAY = 86_400_000;

export function DueNext() {
  const due = useResource(async () => {
    const [list, clock] = await Promise.all([api.get('/_sandbox/due', { limit: 100 }), api.get('/_sandbox/clock')]);
    return { ...list, clock };
  }, [api.selectedOrganization()], (event) => /^(email|message|delivery|attempt|change)$/.test(event.type));
  // The times until then are current within a few seconds.
  useEffect(() => {
    const timer = setInterval(due.reload, 3000);
    return () => clearInterval(timer);
  }, [due.reload]);
  const { data, error } = due;
  const until = (/** @type {Work} */ one) => Date.parse(one.at) - Date.parse(data?.clock.now ?? '');
  const soon = data?.data.filter((one) => until(one) <= DAY) ?? [];
  const later = data?.data.filter((one) => until(one) > DAY) ?? [];
  const table = (/** @type {Work[]} */ work) => html`<div class="table-box"><table
    class="stacked"><thead><tr><th>When</th><th>What happens</th><th><span class="sr">Actions</span></th></tr></thead>
    <tbody>${work.map((one) => html`<${Row} key=${`${one.kind} ${one.subject} ${one.at}`} work=${one}
      wait=${until(one)} />`)}</tbody></table></div>`;
  return html`<${Head} title="Due next" /><div class="scroll"><div class="cards narrow">
    ${error && html`<${Failure} error=${error} retry=${due.reload} />`}
    ${data?.data.length === 0 && html`<${Empty} title="Nothing is due">Scheduled emails, attempts of webhook deliveries,
      delayed recipients and expiries wait here for their time.<//>`}
    ${soon.length > 0 && html`<${Section} title=${`In the next 24 hours: ${count(soon.length, 'thing')}`}>${
      table(soon)}<//>`}
    ${later.length > 0 && html`<${Section} title="Later">${soon.length === 0 && html`<p class="muted">Nothing is due in
      the next 24 hours.</p>`}${table(later)}<//>`}
    ${data?.next && html`<p class="muted">These are the next 100; there are more.</p>`}
  </div></div>`;
}

/** @type {Record<Work['kind'], string>} */
const VIEWS = { email: 'emails', recipient: 'emails', relay: 'emails', message: 'mailbox', delivery: 'deliveries',
  expiry: '' };

/** @param {{work: Work, wait: number}} props */
function Row({ work, wait }) {
  const action = useAction();
  const advance = useAdvance();
  const frozen = useContext(Frozen);
  const view = VIEWS[work.kind];
  return html`<tr><td class="nowrap"><${Time} at=${work.at} /><small class="below">${wait > 0 ? `in ${duration(wait)}${
      frozen ? ', when the clock runs' : ''}` : 'now'}</small></td>
    <td><div class="actions"><${Badge} value=${work.kind} />${view && html`<a href=${href(view,
      work.subject)}>Open</a>`}</div><p class="wrap">${work.description}</p></td>
    <td class="right"><div class="actions end">${view && html`<${Button} kind="small" label=${`Run now: ${
      work.description}`} onClick=${() => action(() => api.post(`/_sandbox/due/${work.subject}/run`), 'It runs')}>Run
      now<//>`}<${Button} kind="small" label=${`Run all until here: ${work.description}`} onClick=${() => advance('',
        work.at)}>Run all until here…<//></div></td></tr>`;
}
