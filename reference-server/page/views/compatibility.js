// Which mail programs support the HTML and CSS of an email, by the data of caniemail.

import { useMemo, useState } from 'preact/hooks';
import { text } from '../lib/api.js';
import { check, read } from '../lib/compatibility.js';
import { useResource } from '../lib/data.js';
import { Badge, Failure, Section, html, valueOf } from '../lib/ui.js';

/** @param {{content: string, embedded?: string[]}} props */
export function Compatibility({ content, embedded = [] }) {
  const { data, error } = useResource(async () =>
    /** @type {import('../lib/compatibility.js').Data} */ (JSON.parse(await text('/page/vendor/caniemail.json'))), []);
  const result = useMemo(() => (data ? check(data, read(content, embedded)) : null), [data, content]);
  const [family, setFamily] = useState('');
  if (error) return html`<${Failure} error=${error} />`;
  if (!data || !result) return html`<p class="loading">Loading…</p>`;
  const { clients } = data;
  const families = [...new Set(clients.map(([name]) => name))];
  const concerns = (/** @type {any[]} */ results) => results.filter(({ client }) => !family || client[0] === family);
  const lacking = result.used.map((one) => ({ ...one, none: concerns(one.none),
    partial: concerns(one.partial) })).filter((one) => one.none.length + one.partial.length > 0);
  const supported = result.used.filter((one) => one.none.length + one.partial.length === 0);
  return html`<div class="pad">
    <div class="actions"><select aria-label="Mail program" style=${{ width: 'auto' }} value=${family}
      onChange=${(/** @type {Event} */ event) => setFamily(valueOf(event))}>
      <option value="">All mail programs</option>${families.map((one) => html`<option
        value=${one}>${one}</option>`)}</select>
      <p class="muted">${result.used.length} features of the email were compared with <a
        href="https://www.caniemail.com/" target="_blank" rel="noopener noreferrer">Can I email</a>, as
          of ${data.date}.</p></div>
    ${lacking.length === 0 ? html`<p>${family || 'Every mail program'} supports all of them, as far as they were
      tested.</p>` : html`<div class="table-box" tabindex="0"><table
        class="compatibility"><thead><tr><th>Feature</th><th>Support</th><th>Mail programs</th></tr></thead><tbody>
      ${lacking.map((one) => html`<tr key=${one.slug}><td><a href=${`https://www.caniemail.com/features/${one.slug}/`}
        target="_blank" rel="noopener noreferrer">${one.title}</a></td>
        <td><${Badge} value=${one.none.length > 0 ? 'fail' : 'softfail'} label=${one.none.length > 0 ?
          `not in ${one.none.length}` : `in part in ${one.partial.length}`} /></td>
        <td>${one.none.length > 0 && html`<p>Not in ${names(one.none, clients)}</p>`}${one.partial.length > 0 &&
          html`<p>In part in ${names(one.partial, clients)}</p>`}
          ${notes([...one.none, ...one.partial]).map((note) => html`<small>${note}</small>`)}</td></tr>`)}
    </tbody></table></div>`}
    ${supported.length > 0 && html`<${Section} title="Supported by every tested mail program"><p
      class="muted">${supported.map((one) => one.title).join(' · ')}</p><//>`}
    <${Section} title="Not checked"><ul class="plain">
      ${result.unknown.properties.length > 0 && html`<li>Properties of the email without
        data: <code>${result.unknown.properties.join(', ')}</code></li>`}
      ${result.unknown.elements.length > 0 &&
        html`<li>Elements of the email without data: <code>${result.unknown.elements.join(', ')}</code></li>`}
      <li>Mail programs in which a feature was not tested are not listed for it, and tests may be older than the mail
        program.</li>
      <li>Content of conditional comments for Outlook, and of style sheets that load from elsewhere.</li>
      <li>Features that the HTML alone does not show: ${result.unrecognized.join(', ')}.</li>
    </ul><//>
  </div>`;
}

/**
 * The mail programs, with their platforms where not all of them are meant. @param {any[]} results @param {string[][]}
 * clients
 */
function names(results, clients) {
  /** @type {Map<string, string[]>} */
  const platforms = new Map();
  for (const { client: [family, platform] } of results) platforms.set(family, [...(platforms.get(family) ?? []),
    platform]);
  return [...platforms].map(([family, found]) => {
    const all = clients.filter(([name]) => name === family).length;
    return found.length === all ? family : `${family} (${found.join(', ')})`;
  }).join(', ');
}

/** What is known about the lack of support. @param {any[]} results @returns {string[]} */
function notes(results) {
  return [...new Set(results.flatMap((one) => one.notes))];
}
