// Templates, and what they render to.

import { useContext, useEffect, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { loadAll, useResource } from '../lib/data.js';
import { HtmlView } from '../lib/frame.js';
import { go, href } from '../lib/route.js';
import { Bar, Button, Code, Empty, Failure, Field, FormDialog, Head, List, Page, Section, Split, Tabs, Time,
  html, valueOf } from '../lib/ui.js';
import { Compatibility } from './compatibility.js';

/** @param {{route: import('../lib/route.js').Route}} props */
export function Templates({ route }) {
  const { id } = route;
  const [editing, setEditing] = useState(/** @type {Partial<import('control').Template> | null} */ (null));
  const templates = useResource(() => loadAll('/_sandbox/templates'), [api.selectedOrganization()], (event) =>
    event.type === 'change' && event.resource === 'templates');
  const [saved, setSaved] = useState(0);
  const save = async (/** @type {import('../lib/ui.js').Values} */ values) => {
    const name = editing?.id ?? values.id;
    /** @type {import('control').CreateTemplate} */
    const body = {};
    for (const part of /** @type {const} */ (['subject', 'html', 'text'])) if (values[part]) body[part] = values[part];
    await api.put(`/_sandbox/templates/${encodeURIComponent(name)}`, body);
    await templates.reload();
    setSaved((n) => n + 1);
    go(href('templates', name));
  };
  const items = templates.data ?? [];
  const list = templates.error ? html`<${Failure} error=${templates.error} retry=${templates.reload} />`
    : templates.data && items.length === 0 ? html`<${Empty} title="No template">An email names a template as
      its <code>templateId</code>.<//>`
    : html`<${List} label="Templates" items=${items} height=${58} selected=${id} back=${href('templates')}
      onEnd=${() => {}} linkOf=${(/** @type {import('control').TemplateSummary} */ item) => href('templates', item.id)}
      row=${(/** @type {import('control').TemplateSummary} */ item) => html`<div class="line"><span
        class="strong">${item.id}</span><${Time} at=${item.updatedAt ?? item.createdAt} /></div><div
          class="line second"><span dir="auto">${item.subject ?? '(no subject)'}</span></div>`} />`;
  return html`<${Head} title="Templates"><${Button} kind="primary" icon="plus" onClick=${() =>
    setEditing({})}>New template<//><//>
    <${Split} open=${id} list=${list} detail=${id ? html`<${Template} key=${`${id} ${saved}`} id=${id}
      tab=${route.params.tab} onEdit=${setEditing} onDelete=${templates.reload} />` : html`<${Empty}
        title="No template is open"><//>`} />
    ${editing && html`<${FormDialog} title=${editing.id ?? 'New template'} action="Save" onClose=${() =>
      setEditing(null)} onSubmit=${save}>
      ${!editing.id && html`<${Field} label="ID"><input name="id" required placeholder="welcome" autofocus /><//>`}
      <${Field} label="Subject"><input name="subject" defaultValue=${editing.subject ?? ''}
        placeholder="Welcome, {{ name }}" /><//>
      <${Field} label="HTML"><textarea name="html" rows="8" defaultValue=${editing.html ?? ''}></textarea><//>
      <${Field} label="Text" hint="Variables are written {{ name }}, in the syntax of Jinja."><textarea name="text"
        rows="4" defaultValue=${editing.text ?? ''}></textarea><//>
    <//>`}`;
}

/**
 * @param {{id: string, tab?: string, onEdit: (template: import('control').Template) => void, onDelete: () => void}}
 * props
 */
function Template({ id, tab, onEdit, onDelete }) {
  const page = useContext(Page);
  const path = `/_sandbox/templates/${encodeURIComponent(id)}`;
  const { data: template, error } = useResource(() => api.get(path), [id, api.selectedOrganization()], (event) =>
    event.type === 'change' && event.resource === 'templates');
  const bar = html`<${Bar} back=${href('templates')}><span class="spacer"></span>
    ${template && html`<${Button} onClick=${() => onEdit(template)}>Edit<//><${Button} kind="quiet" icon="trash"
      label="Delete the template" onClick=${() => page.ask({ title: `Delete ${id}?`,
        text: 'Emails that name it are refused from now on.', action: 'Delete', danger: true,
      run: async () => { await api.del(path); onDelete(); go(href('templates')); } })} />`}<//>`;
  if (error) return html`<div class="detail-head">${bar}</div><${Failure} error=${error} />`;
  if (!template) return html`<div class="detail-head">${bar}</div><p class="loading">Loading…</p>`;
  return html`<${Rendered} key=${`${api.selectedOrganization()} ${id}`} id=${id} bar=${bar} path=${path}
    template=${template} tab=${tab} />`;
}

/**
 * The template with variables as an email would have it.
 * @param {{id: string, bar: import('../lib/ui.js').Children, path: string, template: import('control').Template,
 *   tab?: string}} props
 */
function Rendered({ id, bar, path, template, tab }) {
  const parts = [template.subject, template.html, template.text].filter(Boolean).join('\n');
  const stored = `svc.variables.${api.selectedOrganization() ?? ''}.${id}`;
  const [variables, setVariables] = useState(() => sessionStorage.getItem(stored) ?? JSON.stringify(guess(parts), null,
    2));
  const [settled, setSettled] = useState(variables);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(variables), 300);
    return () => clearTimeout(timer);
  }, [variables]);
  const { data, error } = useResource(async () => api.post(`${path}/render`, { variables: parse(settled) }), [settled,
    parts]);
  const [rendered, setRendered] = useState(/** @type {import('control').RenderedTemplate | null} */ (null));
  // What was rendered last stays, so that typing does not make the preview flicker.
  useEffect(() => {
    if (data) setRendered(data);
  }, [data]);
  const shownParts = data ?? rendered;
  /** @type {[string, string][]} */
  const tabs = [];
  if (template.html) tabs.push(['preview', 'Preview']);
  if (template.text) tabs.push(['text', 'Text']);
  if (template.html) tabs.push(['compatibility', 'Compatibility']);
  tabs.push(['source', 'Source']);
  const shown = tabs.some(([one]) => one === tab) ? tab : tabs[0][0];
  return html`<div class="detail-head">${bar}<h2>${id}</h2><p dir="auto"
    class="muted">${shownParts?.subject ?? template.subject ?? '(no subject)'}</p>
      ${/\{[{%]/.test(parts) && html`<${Field} label="Variables"
        hint="A JSON object. The preview is what an email with these variables contains."><textarea
          rows=${Math.min(variables.split('\n').length, 12)} spellcheck=${false} value=${variables}
        onInput=${(/** @type {Event} */ event) => { setVariables(valueOf(event)); sessionStorage.setItem(stored,
          valueOf(event)); }}></textarea><//>`}
      ${error && html`<${Failure} error=${error} />`}</div>
    <${Tabs} label="Parts of the template" tabs=${tabs} value=${shown} onChange=${(/** @type {string} */ one) =>
      go(href('templates', id, { tab: one }), true)} />
    <div class="detail-body" role="tabpanel" tabindex="0" aria-label=${tabs.find(([one]) => one === shown)?.[1]}>
      ${shown === 'source' ? html`<div class="pad">${/** @type {const} */ (['subject', 'html',
        'text']).filter((part) => template[part]).map((part) => html`<${Section} title=${NAMES[part]}><${Code}
          label=${NAMES[part]} wrap text=${template[part]} /><//>`)}</div>`
        : shownParts && (shown === 'text' ? html`<div class="text-body" dir="auto"
          tabindex="0">${shownParts.text}</div>`
        : shown === 'preview' ? html`<${HtmlView} content=${shownParts.html} title=${`Preview of ${id}`} />`
        : html`<${Compatibility} of=${[settled, parts]} load=${(/** @type {string} */ programs) =>
          api.post(`${path}/html-check`, { variables: parse(settled) }, { programs })} />`)}
    </div>`;
}

/** @type {Record<string, string>} */
const NAMES = { subject: 'Subject', html: 'HTML', text: 'Text' };

/** @param {string} text */
function parse(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`The variables are not JSON: ${/** @type {Error} */ (error).message}`);
  }
}

/**
 * Variables for a first preview: each name that the template prints, with the name as its value. @param {string}
 * source
 */
function guess(source) {
  /** @type {any} */
  const found = { loop: {} };
  for (const [, name] of source.matchAll(/\{\{-?\s*([a-z_]\w*(?:\.[a-z_]\w*)*)(?!\s*[(\w.])/gi)) set(found, name,
    /** @type {string} */ (name.split('.').at(-1)));
  // An item of a loop is no variable: the list of the loop has one such item.
  for (const [, item, list] of source.matchAll(/\{%-?\s*for\s+(\w+)\s+in\s+([a-z_]\w*(?:\.[a-z_]\w*)*)/gi)) {
    set(found, list, [found[item] ?? item]);
    delete found[item];
  }
  delete found.loop;
  return found;
}

/** @param {any} at @param {string} name @param {any} value */
function set(at, name, value) {
  const steps = name.split('.');
  if (steps.includes('__proto__')) return;
  for (const step of steps.slice(0, -1)) at = typeof at[step] === 'object' ? at[step] : (at[step] = {});
  const last = /** @type {string} */ (steps.at(-1));
  if (typeof at[last] !== 'object') at[last] = value;
}
