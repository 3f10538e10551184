// The clock of the server.

import { useContext, useEffect, useState } from 'preact/hooks';
import * as api from '../lib/api.js';
import { useResource } from '../lib/data.js';
import { href } from '../lib/route.js';
import { ahead, count, duration, time } from '../lib/text.js';
import { Badge, Button, Failure, Head, Page, Time, html, useAction } from '../lib/ui.js';

/** The clock of the server, and when it was read. */
export const useClock = () => useResource(async () => ({ ...(await api.get('/_sandbox/clock')), read: Date.now() }), [],
  (event) => event.type === 'change' && event.resource === 'clock');

/** Asks before the clock is advanced, as that cannot be undone: to run what has fallen due. */
export function useAdvance() {
  const page = useContext(Page);
  return async (/** @type {string} */ by, /** @type {string | undefined} */ until = undefined) => {
    const [clock, due] = await Promise.all([api.get('/_sandbox/clock'), api.get('/_sandbox/due', { limit: 100 })]);
    const end = until ? Date.parse(until) : Date.parse(clock.now) + milliseconds(by);
    const falls = due.data.filter((one) => Date.parse(one.at) <= end);
    const advance = until ? `${Math.max(0, end - Date.parse(clock.now))}ms` : by;
    page.ask({ title: `Advance the clock ${until ? `to ${time(until)}` : `by ${by}`}?`, action: 'Advance',
      text: `${falls.length === 0 ? 'Nothing in this organization falls due by then.' :
        `By then, ${falls.length === 100 ? 'at least 100 things fall' : `${count(falls.length, 'thing falls',
          'things fall')}`} due and run: ${falls.slice(0, 3).map((one) => one.description).join('; ')}${
          falls.length > 3 ? '; …' : '.'}`} All organizations of this server share the clock.`,
      run: async () => {
        await api.post('/_sandbox/clock', { advance });
        page.toast(until ? 'The clock was advanced' : `The clock was advanced by ${by}`);
      } });
  };
}

/** @param {string} text A duration of the control interface. */
function milliseconds(text) {
  const [, n = 0, unit = 's'] = /^(\d+)(ms|s|m|h|d)$/.exec(text) ?? [];
  return Number(n) * { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }[/** @type {'s'} */ (unit)];
}

export function Clock() {
  const action = useAction();
  const advance = useAdvance();
  const clock = useResource(async () => ({ ...(await api.get('/_sandbox/clock')), read: Date.now() }), [], (event) =>
    event.type !== 'request' && event.type !== 'message');
  const [, tick] = useState(0);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), 500);
    return () => clearInterval(timer);
  }, []);
  const { data } = clock;
  const now = data ? Date.parse(data.now) + (data.frozen ? 0 : Date.now() - data.read) : 0;
  // A frozen clock falls behind.
  const offset = data ? data.ahead - (data.frozen ? Date.now() - data.read : 0) : 0;
  const due = data?.next_due ? Date.parse(data.next_due) - now : null;
  // What was due has run: ask what is next.
  useEffect(() => {
    if (due === null || due > 0 || data?.frozen) return;
    const timer = setTimeout(clock.reload, 1000);
    return () => clearTimeout(timer);
  }, [data, due !== null && due <= 0]);
  const set = async (/** @type {import('control').ClockChange} */ body, /** @type {string} */ done) => {
    setBusy(true);
    await action(() => api.post('/_sandbox/clock', body), done);
    setBusy(false);
    clock.reload();
  };
  return html`<${Head} title="Clock" />
    <div class="scroll"><div class="cards narrow">
      ${clock.error && html`<${Failure} error=${clock.error} retry=${clock.reload} />`}
      ${data && html`
        <section class="card" aria-label="Time"><div class="card-body">
          <div class="actions"><span class="big">${new Date(now).toLocaleTimeString(undefined,
            { hourCycle: 'h23' })}</span><${Badge} value=${data.frozen ? 'sent' : 'active'} label=${data.frozen ?
              'frozen' : 'running'} /></div>
          <p class="muted">${new Date(now).toLocaleDateString(undefined,
            { dateStyle: 'full' })} · <code>${new Date(now).toISOString()}</code></p>
          <p>${ahead(offset) || 'The time of this computer.'}</p>
          <div class="actions">${data.frozen ? html`<${Button} kind="primary" icon="play" disabled=${busy}
            onClick=${() => set({ resume: true }, 'The clock runs')}>Resume<//>` : html`<${Button} icon="pause"
              disabled=${busy} onClick=${() => set({ freeze: true }, 'The clock is frozen')}>Freeze<//>`}
            ${(data.frozen || ahead(offset)) && html`<${Button} disabled=${busy} onClick=${() => set({ real: true },
              'The clock shows real time')}>Back to real time<//>`}</div>
        </div></section>
        <section class="card" aria-label="Due next"><header><h2>Due next</h2></header><div class="card-body">
          ${due === null ? html`<p class="muted">Nothing is due.</p>` : html`<p><${Time} at=${data.next_due} /> <span
            class="muted">${due > 0 ? `in ${duration(due)}${data.frozen ? ', when the clock runs' : ''}` :
              'now'}</span></p>`}
          ${due !== null && due > 0 && html`<div class="actions"><${Button} disabled=${busy} onClick=${() =>
            advance('', data.next_due ?? '')}>Advance to it…<//><a href=${href('due')}>Everything that is due</a></div>`}
        </div></section>
        <section class="card" aria-label="Advance"><header><h2>Advance</h2></header><div class="card-body">
          <p class="muted">Everything that falls due on the way runs, including what it causes: scheduled emails,
            retries of deliveries, delays.</p>
          <div class="actions">${['10s', '1m', '10m', '1h', '1d', '7d'].map((by) => html`<${Button} key=${by}
            disabled=${busy} onClick=${() => advance(by)}>${by}<//>`)}</div>
          <form class="actions" onSubmit=${(/** @type {any} */ event) => { event.preventDefault();
            advance(String(new FormData(event.target).get('by'))); }}>
            <input name="by" aria-label="Duration" placeholder="90s" required pattern="[0-9]+(ms|s|m|h|d)"
              title="A number with ms, s, m, h or d" style=${{ width: '110px' }} /><button class="button" type="submit"
                disabled=${busy}><span>Advance</span></button>
          </form></div></section>`}
    </div></div>`;
}
