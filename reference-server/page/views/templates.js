// Templates, and what they render to.

import { useContext, useEffect, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { useList, useResource } from '../lib/data.js';
import { HtmlView } from '../lib/frame.js';
import { go, href } from '../lib/route.js';
import { Badge, Button, Code, Copy, Empty, Failure, Field, FormDialog, Head, List, Page, Split, Tabs, Time, html } from '../lib/ui.js';

/** @param {{route: import('../lib/route.js').Route}} props */
export function Templates({ route }) {
  const { id } = route;
  const [editing, setEditing] = useState(/** @type {any} */ (null));
  const templates = useResource(all, [api.selectedOrganization()], (event) => event.type === 'change' && event.resource === 'templates');
  const [saved, setSaved] = useState(0);
  const save = async (/** @type {any} */ values) => {
    const name = editing.id ?? values.id;
    /** @type {any} */
    const body = {};
    for (const part of ['subject', 'html', 'text']) if (values[part]) body[part] = values[part];
    await api.put(`/_sandbox/templates/${encodeURIComponent(name)}`, body);
    await templates.reload();
    setSaved((n) => n + 1);
    go(href('templates', name));
  };
  const items = templates.data ?? [];
  const list = templates.error ? html`<${Failure} error=${templates.error} retry=${templates.reload} />`
    : templates.data && items.length === 0 ? html`<${Empty} title="No template">An email names a template as its <code>templateId</code>.<//>`
    : html`<${List} label="Templates" items=${items} height=${58} selected=${id} back=${href('templates')} onEnd=${() => {}} linkOf=${(/** @type {any} */ item) => href('templates', item.id)}
      row=${(/** @type {any} */ item) => html`<div class="line"><span class="strong">${item.id}</span><${Time} at=${item.updatedAt ?? item.createdAt} /></div><div class="line second"><span>${item.subject ?? '(no subject)'}</span></div>`} />`;
  return html`<${Head} title="Templates"><${Button} kind="primary" icon="plus" onClick=${() => setEditing({})}>New template<//><//>
    <${Split} open=${id} list=${list} detail=${id ? html`<${Template} key=${`${id} ${saved}`} id=${id} tab=${route.params.tab} onEdit=${setEditing} onDelete=${templates.reload} />` : html`<${Empty} title="No template is open"><//>`} />
    ${editing && html`<${FormDialog} title=${editing.id ?? 'New template'} action="Save" onClose=${() => setEditing(null)} onSubmit=${save}>
      ${!editing.id && html`<${Field} label="ID"><input name="id" required placeholder="welcome" autofocus /><//>`}
      <${Field} label="Subject"><input name="subject" defaultValue=${editing.subject ?? ''} placeholder="Welcome, {{ name }}" /><//>
      <${Field} label="HTML"><textarea name="html" rows="8" defaultValue=${editing.html ?? ''}></textarea><//>
      <${Field} label="Text" hint="Variables are written {{ name }}, in the syntax of Jinja."><textarea name="text" rows="4" defaultValue=${editing.text ?? ''}></textarea><//>
    <//>`}`;
}

async function all() {
  /** @type {any[]} */
  const found = [];
  let cursor;
  do {
    const page = await api.get('/_sandbox/templates', { limit: 100, cursor });
    found.push(...page.data);
    cursor = page.next;
  } while (cursor && found.length < 5000);
  return found;
}

/** @param {{id: string, tab?: string, onEdit: (template: any) => void, onDelete: () => void}} props */
function Template({ id, tab, onEdit, onDelete }) {
  const page = useContext(Page);
  const { data: template, error } = useResource(() => api.get(`/_sandbox/templates/${encodeURIComponent(id)}`), [id, api.selectedOrganization()], (event) => event.type === 'change' && event.resource === 'templates');
  const bar = html`<div class="detail-bar"><span class="only-narrow"><${Button} kind="quiet" icon="back" label="Back to the list" onClick=${() => go(href('templates'))} /></span><span class="spacer"></span>
    ${template && html`<${Button} onClick=${() => onEdit(template)}>Edit<//><${Button} kind="quiet" icon="trash" label="Delete the template" onClick=${() => page.ask({ title: `Delete ${id}?`, text: 'Emails that name it are refused from now on.', action: 'Delete', danger: true,
      run: async () => { await api.del(`/_sandbox/templates/${encodeURIComponent(id)}`); onDelete(); go(href('templates')); } })} />`}</div>`;
  if (error) return html`<div class="detail-head">${bar}</div><${Failure} error=${error} />`;
  if (!template) return html`<div class="detail-head">${bar}</div><p class="loading">Loading…</p>`;
  /** @type {[string, string][]} */
  const tabs = [];
  if (template.html) tabs.push(['preview', 'Preview'], ['html', 'HTML']);
  if (template.text) tabs.push(['text', 'Text']);
  const shown = tabs.some(([one]) => one === tab) ? tab : tabs[0]?.[0];
  return html`<div class="detail-head">${bar}<h2>${id}</h2><p class="muted">${template.subject ?? '(no subject)'}</p></div>
    ${tabs.length > 0 && html`<${Tabs} label="Parts of the template" tabs=${tabs} value=${shown} onChange=${(/** @type {string} */ one) => go(href('templates', id, { tab: one }), true)} />`}
    <div class="detail-body" role="tabpanel" tabindex="0" aria-label=${tabs.find(([one]) => one === shown)?.[1] ?? 'Template'}>
      ${shown === 'preview' && html`<${HtmlView} content=${template.html} title=${`Preview of ${id}`} />`}
      ${shown === 'html' && html`<div class="pad"><${Code} label="HTML" wrap text=${template.html} /></div>`}
      ${shown === 'text' && html`<div class="pad"><${Code} label="Text" wrap text=${template.text} /></div>`}
      ${!shown && html`<${Empty} title="The template has only a subject" />`}
    </div>`;
}
