// Which mail programs support the HTML and CSS of an email.

import { useState } from 'preact/hooks';
import { useResource } from '../lib/data.js';
import { Badge, Failure, Section, html, valueOf } from '../lib/ui.js';

/** @typedef {import('control').HtmlCheck} HtmlCheck */

/** @param {{load: (programs: string) => Promise<HtmlCheck>, of: unknown}} props */
export function Compatibility({ load, of }) {
  const [program, setProgram] = useState('');
  const { data: check, error } = useResource(() => load(program), [of, program]);
  if (error) return html`<${Failure} error=${error} />`;
  if (!check) return html`<p class="loading">Loading…</p>`;
  const lacking = check.features.filter((one) => one.none.length + one.partial.length > 0);
  const supported = check.features.filter((one) => one.none.length + one.partial.length === 0);
  return html`<div class="pad">
    <div class="actions"><select aria-label="Mail program" style=${{ width: 'auto' }} value=${program}
      onChange=${(/** @type {Event} */ event) => setProgram(valueOf(event))}>
      <option value="">All mail programs</option>${check.programs.map((one) => html`<option
        value=${one}>${one}</option>`)}</select>
      <p class="muted">${check.features.length} features of the email were compared with <a
        href="https://www.caniemail.com/" target="_blank" rel="noopener noreferrer">Can I email</a>, as
          of ${check.date}.</p></div>
    ${lacking.length === 0 ? html`<p>${program || 'Every mail program'} supports all of them, as far as they were
      tested.</p>` : html`<div class="table-box" tabindex="0"><table
        class="compatibility"><thead><tr><th>Feature</th><th>Support</th><th>Mail programs</th></tr></thead><tbody>
      ${lacking.map(({ name, title, none, partial, notes }) => html`<tr key=${name}><td><a
        href=${`https://www.caniemail.com/features/${name}/`} target="_blank" rel="noopener noreferrer">${title}</a></td>
        <td><${Badge} value=${none.length > 0 ? 'fail' : 'softfail'} label=${none.length > 0 ?
          `not in ${none.length}` : `in part in ${partial.length}`} /></td>
        <td>${none.length > 0 && html`<p>Not in ${none.join(', ')}</p>`}${partial.length > 0 &&
          html`<p>In part in ${partial.join(', ')}</p>`}${notes.map((note) => html`<small>${note}</small>`)}</td></tr>`)}
    </tbody></table></div>`}
    ${supported.length > 0 && html`<${Section} title="Supported by every tested mail program"><p
      class="muted">${supported.map((one) => one.title).join(' · ')}</p><//>`}
    <${Section} title="Not checked"><ul class="plain">
      ${check.unknown.length > 0 && html`<li>Without data: <code>${check.unknown.join(', ')}</code></li>`}
      <li>Mail programs in which a feature was not tested are not listed for it, and tests may be older than the mail
        program.</li>
      <li>Content of conditional comments for Outlook, and of style sheets that load from elsewhere.</li>
    </ul><//>
  </div>`;
}
