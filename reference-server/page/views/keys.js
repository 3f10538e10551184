// Keys of both services.

import { useContext, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { useResource } from '../lib/data.js';
import { Badge, Button, Code, Dialog, Failure, Field, FormDialog, Head, Page, Time, html,
  valueOf } from '../lib/ui.js';

export function Keys() {
  const page = useContext(Page);
  const [adding, setAdding] = useState(false);
  const [service, setService] = useState('email');
  const [created, setCreated] = useState(/** @type {import('control').Key | null} */ (null));
  const keys = useResource(() => api.get('/_sandbox/keys'), [api.selectedOrganization()], (event) =>
    event.type === 'change' && event.resource === 'keys');
  const add = async (/** @type {import('../lib/ui.js').Values} */ values) => {
    const body = service === 'email' ? { service, mode: values.mode, scopes: api.SCOPES.filter((scope) =>
      values[scope]) } : { service, mode: values.mode, scope: values.scope };
    setCreated(await api.post('/_sandbox/keys', /** @type {import('control').NewKey} */ (body)));
    keys.reload();
  };
  const revoke = (/** @type {import('control').Key} */ key) => page.ask({ title: `Revoke ${key.hint}?`,
    text: 'Requests with this key fail from now on.', action: 'Revoke', danger: true,
    run: async () => { await api.del(`/_sandbox/keys/${key.id}`); keys.reload(); } });
  return html`<${Head} title="Keys"><${Button} kind="primary" icon="plus" onClick=${() =>
    setAdding(true)}>Create key<//><//>
    <div class="scroll">
      ${keys.error && html`<${Failure} error=${keys.error} retry=${keys.reload} />`}
      ${keys.data && html`<div class="table-box"><table
        class="stacked"><thead><tr><th>Key</th><th>Service</th><th>Mode</th><th>Scopes</th><th>Created</th><th><span
          class="sr">Revoke</span></th></tr></thead><tbody>
        ${keys.data.map((/** @type {import('control').Key} */ key) => html`<tr key=${key.id}><td
          class="nowrap"><code>${key.hint}</code></td><td>${key.service}</td><td>${key.mode}</td>
          <td><div class="actions">${(key.scopes ?? [key.scope]).map((scope) => html`<${Badge}
            value=${scope} />`)}</div></td><td class="nowrap"><${Time} at=${key.createdAt} /></td>
          <td class="right"><${Button} kind="quiet" icon="trash" label=${`Revoke ${key.hint}`} onClick=${() =>
            revoke(key)} /></td></tr>`)}
      </tbody></table></div>`}
    </div>
    ${adding && html`<${FormDialog} title="Create key" action="Create" onClose=${() => setAdding(false)}
      onSubmit=${add}>
      <div class="row-fields"><${Field} label="Service"><select value=${service}
        onChange=${(/** @type {Event} */ event) => setService(valueOf(event))} autofocus><option
          value="email">email</option><option value="extraction">extraction</option></select><//>
        <${Field} label="Mode"><select name="mode"><option>test</option><option>live</option></select><//></div>
      ${service === 'email' ? html`<fieldset class="stack" style=${{ border: 0, padding: 0, margin: 0 }}><legend
        class="field"><span>Scopes</span></legend>${api.SCOPES.map((scope) => html`<label class="check"><input
          type="checkbox" name=${scope} defaultChecked />${scope}</label>`)}</fieldset>`
        : html`<${Field} label="Scope"><select
          name="scope"><option>full</option><option>extract_only</option></select><//>`}
    <//>`}
    ${created && html`<${Dialog} title="The key" onClose=${() => setCreated(null)}><div
      class="pad"><p>Copy it now: it is not shown again.</p><${Code} label="Key" wrap
        text=${created.key} /></div><//>`}`;
}
