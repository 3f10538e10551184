// Faults: what the next matching requests meet instead of a normal response.

import { useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { useResource } from '../lib/data.js';
import { count } from '../lib/text.js';
import { Badge, Button, Choice, Code, Empty, Failure, Field, FormDialog, Head, Time, html, useAction } from '../lib/ui.js';

const OPERATIONS = ['emails.send', 'emails.send_batch', 'emails.get', 'emails.cancel', 'domains.create',
  'domains.list', 'domains.verify', 'domains.delete', 'audiences.create', 'audiences.list', 'audiences.get',
    'audiences.delete',
  'contacts.create', 'contacts.list', 'contacts.update', 'contacts.delete', 'webhooks.create', 'webhooks.list',
    'webhooks.update', 'webhooks.delete', 'webhooks.test', 'me'];

export function Faults() {
  const [adding, setAdding] = useState(false);
  const [kind, setKind] = useState('http');
  const action = useAction();
  const faults = useResource(() => api.get('/_sandbox/faults'), [api.selectedOrganization()], (event) =>
    event.type === 'request' || (event.type === 'change' && event.resource === 'faults'));
  const add = async (/** @type {import('../lib/ui.js').Values} */ { retryAfter, ...fields }) => {
    const given = Object.entries(fields).filter(([, value]) => value !== '');
    /** @type {Record<string, any>} */
    const fault = Object.fromEntries(given.map(([name, value]) => [name, NUMBERS.includes(name) ? Number(value) :
      value === 'on' || value]));
    if (retryAfter) fault.headers = { 'retry-after': retryAfter };
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
          ${fault.hits.length === 0 ? html`<p class="muted">${fault.smtp ? 'No session' :
            'No request'} has hit it yet.</p>` : html`<p>It hit ${count(fault.hits.length, fault.smtp ? 'step' :
              'request')}.</p>
            <ul class="actions">${fault.hits.slice(-8).map((hit) => html`<li
              class="muted">${hit.operation.replace(/^email /, '')} at <${Time} at=${hit.at} /></li>`)}</ul>`}
          ${fault.body !== undefined && html`<${Code} label="Body" wrap text=${typeof fault.body === 'string' ?
            fault.body : JSON.stringify(fault.body, null, 2)} />`}
        </div></section>`)}
    </div></div>
    ${adding && html`<${FormDialog} title="Add fault" action="Add" onClose=${() => setAdding(false)} onSubmit=${add}>
      <${Choice} label="Affects" value=${kind} onChange=${setKind} options=${[['http', 'Requests'], ['smtp',
        'SMTP sessions']]} />
      ${kind === 'http' ? html`<${Field} label="Operation"><select name="operation"><option value="">any</option>${
        OPERATIONS.map((one) => html`<option value=${one}>${one}</option>`)}</select><//>`
      : html`<div class="row-fields"><${Field} label="Step"><select name="smtp">${['connect', 'auth', 'mail', 'rcpt',
        'data'].map((one) => html`<option value=${one} selected=${one === 'rcpt'}>${one}</option>`)}</select><//>
        <${Field} label="Recipient" hint="at rcpt and data"><input name="to" placeholder="*@slow.test" /><//>
        <${Field} label="Sender" hint="from mail on"><input name="from" placeholder="any" /><//></div>`}
      <div class="row-fields">
        <${Field} label="Times" hint="matches it applies to"><input name="times" type="number" min="1"
          placeholder="1" /><//>
        <${Field} label="Skip" hint="matches that pass first"><input name="skip" type="number" min="0"
          placeholder="0" /><//>
        <${Field} label="Share" hint="fraction of the matches"><input name="share" type="number" min="0.01" max="1"
          step="0.01" placeholder="1" /><//></div>
      <div class="row-fields"><${Field} label="Status" hint=${kind === 'http' ? '200 to 599' : '400 to 599'}><input
        name="status" type="number" min=${kind === 'http' ? 200 : 400} max="599" placeholder=${kind === 'http' ? 503 :
          452} /><//>
        ${kind === 'http' && html`<${Field} label="Retry-After" hint="seconds, with a status"><input name="retryAfter"
          placeholder="none" /><//>`}
        <${Field} label="Latency" hint="such as 250ms"><input name="latency" placeholder="none" /><//></div>
      <${Field} label=${kind === 'http' ? 'Body' : 'Text'} hint="sent with the status"><textarea name="body"
        rows=${kind === 'http' ? 3 : 1}></textarea><//>
      ${kind === 'smtp' && html`<label><input type="checkbox" name="greylist" /> Greylist: refuse each sender and recipient
        once, at rcpt</label><label><input type="checkbox" name="slow" /> Write the reply during the latency, byte by
        byte</label>`}
      <${Field} label="Cut the connection"><select name="drop"><option value="">no</option><option
        value="before">before it is processed</option><option value="after">after it is processed</option>${kind ===
          'http' && html`<option value="midway">midway through the response</option>`}</select><//>
    <//>`}`;
}

const NUMBERS = ['times', 'skip', 'share', 'status'];

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
  if (fault.slow) parts.push('byte by byte');
  if (fault.skip) parts.push(`after ${count(fault.skip, fault.smtp ? 'step' : 'request')}`);
  return parts.join(', ');
}
