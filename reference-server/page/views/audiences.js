// Audiences and their contacts.

import { useContext, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { loadAll, useResource } from '../lib/data.js';
import { go, href } from '../lib/route.js';
import { Badge, Bar, Button, Empty, Failure, Field, FormDialog, Head, List, Page, Split, Time, html,
  useAction } from '../lib/ui.js';

/** @param {{route: import('../lib/route.js').Route}} props */
export function Audiences({ route }) {
  const { id } = route;
  const [adding, setAdding] = useState(false);
  const audiences = useResource(() => loadAll('/_sandbox/audiences'), [api.selectedOrganization()], (event) =>
    event.type === 'request' && /\baudiences\.(create|delete)$/.test(event.operation));
  const found = audiences.data?.find((one) => one.id === id);
  const list = audiences.error ? html`<${Failure} error=${audiences.error} retry=${audiences.reload} />`
    : audiences.data?.length === 0 ? html`<${Empty} title="No audience">An audience is a named list of contacts.<//>`
    : html`<${List} label="Audiences" items=${audiences.data ?? []} height=${44} selected=${id}
      back=${href('audiences')} onEnd=${() => {}} linkOf=${(/** @type {import('control').Audience} */ item) =>
        href('audiences', item.id)}
      row=${(/** @type {import('control').Audience} */ item) => html`<div class="line"><span
        class="strong" dir="auto">${item.name}</span><${Time} at=${item.createdAt} /></div>`} />`;
  return html`<${Head} title="Audiences"><${Button} kind="primary" icon="plus" onClick=${() =>
    setAdding(true)}>New audience<//><//>
    <${Split} open=${id} list=${list} detail=${id ? html`<${Contacts} key=${id} id=${id} cursor=${route.params.cursor}
      name=${found?.name ?? id} onDelete=${audiences.reload} />` : html`<${Empty} title="No audience is open"><//>`} />
    ${adding && html`<${FormDialog} title="New audience" action="Create" onClose=${() => setAdding(false)}
      onSubmit=${async (/** @type {import('../lib/ui.js').Values} */ values) => {
      await api.documented('POST', '/api/v1/audiences', { name: values.name });
      audiences.reload();
    }}><${Field} label="Name"><input name="name" required autofocus /><//><//>`}`;
}

/** @param {{id: string, cursor?: string, name: string, onDelete: () => void}} props */
function Contacts({ id, cursor, name, onDelete }) {
  const [adding, setAdding] = useState(false);
  const action = useAction();
  const shell = useContext(Page);
  const contacts = useResource(() => api.get(`/_sandbox/audiences/${id}/contacts`, { limit: 100, cursor }), [id,
    cursor, api.selectedOrganization()], (event) => event.type === 'request' &&
      /\bcontacts\.(create|update|delete)$/.test(event.operation));
  const shown = contacts.data?.data ?? [];
  const next = contacts.data?.next;
  return html`<div class="detail-head"><${Bar} back=${href('audiences')}><span class="spacer"></span>
      <${Button} icon="plus" onClick=${() => setAdding(true)}>Add contact<//>
      <${Button} kind="quiet" icon="trash" label="Delete the audience" onClick=${() =>
        shell.ask({ title: `Delete ${name}?`, text: 'The audience and its contacts are deleted.', action: 'Delete',
          danger: true,
        run: async () => { await api.documented('DELETE', `/api/v1/audiences/${id}`); onDelete();
          go(href('audiences')); } })} /><//><h2 dir="auto">${name}</h2></div>
    <div class="detail-body"><div class="pad">
      ${contacts.error && html`<${Failure} error=${contacts.error} retry=${contacts.reload} />`}
      ${contacts.data && shown.length === 0 && html`<p class="muted">${cursor ? 'There are no more contacts.' :
        'The audience has no contacts.'}</p>`}
      ${shown.length > 0 && html`<div class="table-box"><table
        class="stacked"><thead><tr><th>Address</th><th>Name</th><th>Topics</th><th>Subscribed</th><th><span
          class="sr">Delete</span></th></tr></thead><tbody>
        ${shown.map((one) => html`<tr key=${one.id}><td>${one.email}</td><td dir="auto">${one.name}</td><td><div
          class="actions">${(one.topics ?? []).map((/** @type {string} */ topic) => html`<${Badge}
            value=${topic} />`)}</div></td>
          <td><span class="only-stacked" aria-hidden="true">Subscribed </span><input type="checkbox"
            aria-label=${`${one.email} is subscribed`} checked=${one.subscribed}
              onChange=${(/** @type {any} */ event) => action(() => api.documented('PATCH',
                `/api/v1/contacts/${one.id}`, { subscribed: event.target.checked }))} /></td>
          <td class="right"><${Button} kind="quiet" icon="trash" label=${`Delete ${one.email}`} onClick=${() =>
            action(async () => { await api.documented('DELETE', `/api/v1/contacts/${one.id}`); contacts.reload(); },
              `${one.email} was deleted`)} /></td></tr>`)}
      </tbody></table></div>`}
      ${(cursor || next) && html`<div class="actions"><${Button} disabled=${!cursor} onClick=${() =>
        go(href('audiences', id))}>First page<//><${Button} disabled=${!next} onClick=${() => go(href('audiences', id,
          { cursor: next }))}>Next page<//></div>`}
    </div></div>
    ${adding && html`<${FormDialog} title="Add contact" action="Add" onClose=${() => setAdding(false)}
      onSubmit=${async (/** @type {import('../lib/ui.js').Values} */ values) => {
      /** @type {import('email').CreateContact} */
      const body = { email: values.email };
      if (values.name) body.name = values.name;
      const topics = String(values.topics).split(',').map((one) => one.trim()).filter(Boolean);
      if (topics.length > 0) body.topics = topics;
      await api.documented('POST', `/api/v1/audiences/${id}/contacts`, body);
      contacts.reload();
    }}><${Field} label="Address"><input name="email" type="email" required autofocus /><//><${Field}
      label="Name"><input name="name" /><//><${Field} label="Topics" hint="separated by commas"><input
        name="topics" /><//><//>`}`;
}
