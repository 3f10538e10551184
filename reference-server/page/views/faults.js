// Faults: what the next matching requests meet instead of a normal response.

import { useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { useResource } from '../lib/data.js';
import { Badge, Button, Code, Empty, Failure, Field, FormDialog, Head, Time, html, useAction } from '../lib/ui.js';

const OPERATIONS = ['emails.send', 'emails.send_batch', 'emails.get', 'emails.cancel', 'domains.create',
  'domains.list', 'domains.verify', 'domains.delete', 'audiences.create', 'audiences.list', 'audiences.get',
    'audiences.delete',
  'contacts.create', 'contacts.list', 'contacts.update', 'contacts.delete', 'webhooks.create', 'webhooks.list',
    'webhooks.update', 'webhooks.delete', 'webhooks.test', 'me'];

export function Faults() {
  const [adding, setAdding] = useState(false);
  const action = useAction();
  const faults = useResource(() => api.get('/_sandbox/faults'), [api.selectedOrganization()], (event) =>
    event.type === 'request' || (event.type === 'change' && event.resource === 'faults'));
  const add = async (/** @type {import('../lib/ui.js').Values} */ values) => {
    /** @type {import('control').CreateFault} */
    const fault = { times: Number(values.times) };
    if (values.smtp) fault.smtp = /** @type {typeof fault.smtp} */ (values.smtp);
    if (values.to) fault.to = values.to;
    if (values.operation) fault.operation = /** @type {typeof fault.operation} */ (values.operation);
    if (Number(values.skip) > 0) fault.skip = Number(values.skip);
    if (values.status) fault.status = Number(values.status);
    if (values.body) fault.body = values.body;
    if (values.retryAfter) fault.headers = { 'retry-after': values.retryAfter };
    if (values.latency) fault.latency = values.latency;
    if (values.drop) fault.drop = /** @type {typeof fault.drop} */ (values.drop);
    await api.post('/_sandbox/faults', fault);
    faults.reload();
  };
  return html`
    <${Head} title="Faults">
      ${(faults.data ?? []).length > 0 && html`<${Button} onClick=${() => action(async () =>
        { await api.del('/_sandbox/faults'); faults.reload(); }, 'All faults were removed')}>Remove all<//>`}
      <${Button} kind="primary" icon="plus" onClick=${() => setAdding(true)}>Add fault<//><//>
    <div class="scroll"><div class="cards narrow">
      ${faults.error && html`<${Failure} error=${faults.error} retry=${faults.reload} />`}
      ${faults.data?.length === 0 && html`<${Empty} title="No fault">Add one to see how an application handles an
        error, a slow response or a cut connection.<//>`}
      ${faults.data?.map((fault) => html`<section class="card" key=${fault.id} aria-label=${describe(fault)}>
        <header><h2>${fault.smtp ? `SMTP ${fault.smtp}` : fault.operation ?? 'Any operation'}: ${describe(fault)}</h2><${Badge}
          value=${fault.remaining > 0 ? 'active' : 'used up'} label=${fault.remaining > 0 ? `${fault.remaining} left` :
            'used up'} />
          <${Button} kind="quiet" icon="trash" label="Remove the fault" onClick=${() => action(async () =>
            { await api.del(`/_sandbox/faults/${fault.id}`); faults.reload(); }, 'The fault was removed')} /></header>
        <div class="card-body">
          ${fault.hits.length === 0 ? html`<p class="muted">No request met it yet.</p>` :
            html`<p>${fault.hits.length} ${fault.hits.length === 1 ? 'request' : 'requests'} met it.</p>
            <ul class="actions">${fault.hits.slice(-8).map((hit) => html`<li
              class="muted">${hit.operation.replace(/^email /, '')} at <${Time} at=${hit.at} /></li>`)}</ul>`}
          ${fault.body !== undefined && html`<${Code} label="Body" wrap text=${typeof fault.body === 'string' ?
            fault.body : JSON.stringify(fault.body, null, 2)} />`}
        </div></section>`)}
    </div></div>
    ${adding && html`<${FormDialog} title="Add fault" action="Add" onClose=${() => setAdding(false)} onSubmit=${add}>
      <div class="row-fields"><${Field} label="Operation"><select name="operation" autofocus><option
        value="">any</option>${OPERATIONS.map((one) => html`<option value=${one}>${one}</option>`)}</select><//>
        <${Field} label="or SMTP step"><select name="smtp"><option value="">none</option>${['connect', 'auth', 'mail',
          'rcpt', 'data'].map((one) => html`<option value=${one}>${one}</option>`)}</select><//>
        <${Field} label="Recipient" hint="of rcpt and data"><input name="to" placeholder="*@slow.test" /><//></div>
      <div class="row-fields">
        <${Field} label="Requests" hint="how many it applies to"><input name="times" type="number" min="1" value="1"
          required /><//>
        <${Field} label="Skip" hint="how many pass first"><input name="skip" type="number" min="0"
          value="0" /><//></div>
      <div class="row-fields"><${Field} label="Status" hint="200 to 599"><input name="status" type="number" min="200"
        max="599" placeholder="503" /><//>
        <${Field} label="Retry-After" hint="seconds, with a status"><input name="retryAfter" placeholder="none" /><//>
        <${Field} label="Latency" hint="such as 250ms"><input name="latency" placeholder="none" /><//></div>
      <${Field} label="Body" hint="of the response with the status"><textarea name="body" rows="3"></textarea><//>
      <${Field} label="Cut the connection"><select name="drop"><option value="">no</option><option
        value="before">before the request is processed</option><option
          value="after">after the request is processed</option><option
            value="midway">midway through the response</option></select><//>
    <//>`}`;
}

/** @param {import('control').Fault} fault */
function describe(fault) {
  const parts = [];
  if (fault.latency) parts.push(`wait ${fault.latency}`);
  if (fault.greylist) parts.push('greylist');
  if (fault.share) parts.push(`${fault.share * 100} %`);
  if (fault.to) parts.push(`to ${fault.to}`);
  if (fault.from) parts.push(`from ${fault.from}`);
  if (fault.status) parts.push(`respond with ${fault.status}`);
  if (fault.drop) parts.push({ before: 'cut before processing', after: 'cut after processing',
    midway: 'cut midway' }[/** @type {'before'} */ (fault.drop)]);
  if (fault.skip) parts.push(`after ${fault.skip} requests`);
  return parts.join(', ');
}
