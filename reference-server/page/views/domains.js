// Sending domains, their records, and what DNS says about them.

import { useContext, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { loadAll, useResource } from '../lib/data.js';
import { Badge, Button, Copy, Empty, Failure, Field, FormDialog, Head, Page, html, useAction } from '../lib/ui.js';

/** Names for which the server has a zone of its own. */
const RESERVED = /\.(test|example|invalid|localhost)$/;

export function Domains() {
  const [adding, setAdding] = useState(false);
  const domains = useResource(() => loadAll('/_sandbox/domains'), [api.selectedOrganization()],
    (event) => (event.type === 'request' && /\bdomains\.(create|delete|verify)$/.test(event.operation)) ||
      (event.type === 'change' && event.resource === 'dns'));
  return html`
    <${Head} title="Domains"><${Button} kind="primary" icon="plus" onClick=${() => setAdding(true)}>Add domain<//><//>
    <div class="scroll"><div class="cards narrow">
      ${domains.error && html`<${Failure} error=${domains.error} retry=${domains.reload} />`}
      ${!domains.data && !domains.error && html`<p class="loading">Loading…</p>`}
      ${domains.data?.length === 0 && html`<${Empty} title="No sending domain">Emails can be sent only from a verified
        domain.<//>`}
      ${domains.data?.map((domain) => html`<${Domain} key=${domain.id} domain=${domain} reload=${domains.reload} />`)}
    </div></div>
    ${adding && html`<${FormDialog} title="Add domain" action="Add" onClose=${() => setAdding(false)}
      onSubmit=${async (/** @type {import('../lib/ui.js').Values} */ { name }) => {
        await api.documented('POST', '/api/v1/domains', { name });
        domains.reload();
      }}>
      <${Field} label="Name" hint="A name under .test or .example can be published in the server's own zone."><input
        name="name" required placeholder="shop.test" autofocus /><//><//>`}`;
}

/** A value on one line, and on request all of it. @param {{text: string}} props */
const Value = ({ text }) => (text.length <= 60 ? text : html`<details class="fold"><summary>${text.slice(0,
  44)}…</summary>${text}</details>`);

/** @param {{domain: import('control').Domain, reload: () => void}} props */
function Domain({ domain, reload }) {
  const action = useAction();
  const page = useContext(Page);
  const stored = `svc-check-${domain.id}`;
  const [checks, setChecks] = useState(/** @type {() => import('email').DnsCheck[]} */ (() =>
    JSON.parse(sessionStorage.getItem(stored) ?? '[]')));
  // Another check may have passed since.
  const failed = checks.filter((check) => !check.verified && !domain[`${check.kind}_verified`]);
  const run = async (/** @type {() => Promise<unknown>} */ work, /** @type {string} */ done) => {
    await action(work, done);
    reload();
  };
  const lookUp = async () => {
    const found = (await api.documented('POST', `/api/v1/domains/${domain.id}/verify`)).checks ?? [];
    setChecks(found);
    sessionStorage.setItem(stored, JSON.stringify(found));
    const wrong = found.filter((check) => !check.verified).length;
    page.toast(wrong ? `${wrong} of ${found.length} records failed the check` : `${domain.name} is verified`, wrong ?
      'bad' : 'good');
  };
  const verify = () => run(lookUp, '');
  const publish = () => run(async () => {
    await api.post(`/_sandbox/dns/${domain.id}/publish`);
    await lookUp();
  }, '');
  const withdraw = () => run(() => api.del(`/_sandbox/dns/${domain.id}`),
    'The records are withdrawn; verify looks them up again');
  const remove = () => page.ask({ title: `Delete ${domain.name}?`,
    text: 'The domain and all mailboxes under it are deleted. This cannot be undone.', action: 'Delete', danger: true,
    run: async () => { await api.documented('DELETE', `/api/v1/domains/${domain.id}`); reload(); } });
  const own = RESERVED.test(domain.name);
  return html`<section class="card" aria-label=${domain.name}>
    <header><h2>${domain.name}</h2><${Badge} value=${domain.verified ? 'verified' : failed.length > 0 ?
      'failed' : 'pending'} label=${domain.verified ? 'verified' : 'not verified'} />
      <div class="actions">${own && html`<${Button} title="Publish the records in the server's own zone, and verify"
        onClick=${publish}>Publish<//><${Button} title="Remove the records from the server's own zone"
          onClick=${withdraw}>Withdraw<//>`}<${Button} title="Look up the records"
            onClick=${verify}>Verify<//><${Button} kind="quiet" icon="trash" label=${`Delete ${domain.name}`}
              onClick=${remove} /></div></header>
    ${failed.length > 0 && html`<div class="failure" role="alert"><p>The check failed, so no email can be sent from
      ${' '}${domain.name}.</p><dl class="checks">${failed.map((check) => html`<dt
        key=${check.kind}>${check.kind.toUpperCase()} <code>${check.name}</code></dt>
        <dd>Expected <code>${check.expected}</code></dd><dd>Found ${check.found.length > 0 ? check.found.map((one) =>
          html`<code>${one}</code> `) : 'nothing'}${check.reason && html` <small>(${check.reason})</small>`}</dd>`)}
      </dl></div>`}
    ${!own && html`<p class="card-body muted">Publish these records at the DNS provider of the domain, then
      verify.</p>`}
    <div class="table-box"><table
      class="records"><thead><tr><th>Record</th><th>Type</th><th>Name</th><th>Value</th><th><span
        class="sr">Copy</span></th></tr></thead><tbody>
      ${domain.records.map((record) => html`<tr key=${record.kind}>
        <td><${Badge} value=${domain[`${record.kind}_verified`] ? 'pass' :
          failed.some(({ kind }) => kind === record.kind) ? 'fail' : 'none'}
          label=${record.kind.toUpperCase()} /><span class="sr">${domain[`${record.kind}_verified`] ? 'found' :
            'not found'}</span></td>
        <td>${record.type}</td><td class="mono record-name">${record.name}</td><td
          class="mono record-value"><${Value} text=${`${record.priority ? `${record.priority} ` : ''}${record.value}`} /></td><td
            class="right"><${Copy} text=${record.value}
              label=${`Copy the ${record.kind.toUpperCase()} value`} /></td></tr>`)}
    </tbody></table></div>
  </section>`;
}
