// Keys of both services.

import { useContext, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { asCaller, curl } from '../lib/calls.js';
import { loadAll, useResource } from '../lib/data.js';
import { sendCommand } from '../lib/text.js';
import { Badge, Button, Code, Copy, Dialog, Failure, Field, FormDialog, Head, Page, Time, html,
  useAction, valueOf } from '../lib/ui.js';

/** The key of a hint, if it is a seeded one. @param {string | null} [hint] */
const seededOf = (hint) => Object.values(api.SEEDED).find((key) => hint === `${key.slice(0, Math.min(key.length >> 1, 11))}…`);

/** The key, its header and the sender with which the commands of this page work. */
export const useCaller = () => useResource(async () => {
  const [header, domains] = await Promise.all([api.findKeyHeader(), loadAll('/_sandbox/domains')]);
  const domain = domains.find((one) => one.name === 'sandbox.test' || one.verified) ?? { name: 'sandbox.test' };
  return { key: api.knownKey(), header, from: `hello@${domain.name}` };
}, [api.selectedOrganization()], (event) => event.type === 'request' && /domains\./.test(event.operation));

/** Creates the key that the commands need, as the server shows no key twice. @param {{done: () => void}} props */
export function NewKeyButton({ done }) {
  const action = useAction();
  return html`<p>The command needs a key of this organization, and the server shows no key twice. <${Button}
    kind="small" onClick=${() => action(async () => { await api.key(); done(); })}>Use a new key<//></p>`;
}

/**
 * A command that works for the selected organization.
 * @param {{text: string, command: (from: string) => string}} props
 */
export function Hint({ text, command }) {
  const { data, reload } = useCaller();
  return data && html`<p>${text}</p>${data.key ? html`<${Code} label="Command" wrap
    text=${asCaller(command(data.from), data.key)} />` : html`<${NewKeyButton} done=${reload} />`}`;
}

/** How to send an email. */
export const SendHint = () => html`<${Hint} text="Send an email, and it appears here at once:"
  command=${sendCommand} />`;

/** How mail gets into the mailbox. */
export function MailHint() {
  const caller = useCaller().data;
  const smtp = useResource(() => api.get('/_sandbox/health'), []).data?.addresses.smtp;
  const { key = null, from = '' } = caller ?? {};
  return html`<${SendHint} />${key && html`<p>The same with curl:</p><${Code} label="Request" wrap
    text=${curl({ from, to: 'ada@example.test', subject: 'Hi', text: 'Hello' }, caller)} />
    <p>The key is <code>${key}</code><${Copy} text=${key} label="Copy the key" />${smtp && html`, and SMTP is at
      <code>${smtp}</code><${Copy} text=${smtp} label="Copy the SMTP address" />, without a login`}.</p>`}`;
}

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
    setCreated(await api.post('/_sandbox/keys', /** @type {import('control').CreateKey} */ (body)));
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
          class="nowrap"><code>${seededOf(key.hint) ?? key.hint}</code>${seededOf(key.hint) && html`<${Copy}
            text=${seededOf(key.hint)} label="Copy the key" />`}</td><td>${key.service}</td><td>${key.mode}</td>
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
      ${service === 'email' ? html`<fieldset class="stack"><legend>Scopes</legend>${api.SCOPES.map((scope) =>
        html`<label class="check"><input type="checkbox" name=${scope} defaultChecked />${scope}</label>`)}</fieldset>`
        : html`<${Field} label="Scope"><select
          name="scope"><option>full</option><option>extract_only</option></select><//>`}
    <//>`}
    ${created && html`<${Dialog} title="The key" onClose=${() => setCreated(null)}><div
      class="pad"><p>Copy it now: it is not shown again.</p><${Code} label="Key" wrap
        text=${created.key} /></div><//>`}`;
}
