// Which messages were opened in this browser. IDs grow with time, so one ID marks all
// messages up to it as read.

import { useEffect, useState } from 'preact/hooks';
import { get, selectedOrganization } from './api.js';
import { useEvents } from './live.js';

const MAX = 2000;

/** The organization that `state` is of. @type {string | null | undefined} */
let owner;
let state = { upTo: '', ids: new Set() };
/** Called when messages were read. @type {Set<() => void>} */
const watchers = new Set();

const name = () => `svc.read${owner ? `.${owner}` : ''}`;

/** What was read of the selected organization. */
function current() {
  if (owner === selectedOrganization()) return state;
  owner = selectedOrganization();
  try {
    const stored = JSON.parse(localStorage.getItem(name()) ?? '{}');
    state = { upTo: String(stored.upTo ?? ''), ids: new Set(stored.ids ?? []) };
  } catch {
    state = { upTo: '', ids: new Set() };
  }
  return state;
}

/** @param {string} id */
export function isRead(id) {
  const { upTo, ids } = current();
  return id <= upTo || ids.has(id);
}

/** @param {string} id */
export function markRead(id) {
  if (isRead(id)) return;
  state.ids.add(id);
  save();
}

/** @param {string} id */
export function markAllRead(id) {
  const { upTo, ids } = current();
  state = { upTo: id > upTo ? id : upTo, ids: new Set([...ids].filter((one) => String(one) > id)) };
  save();
}

function save() {
  localStorage.setItem(name(), JSON.stringify({ upTo: state.upTo, ids: [...state.ids].slice(-MAX) }));
  for (const watcher of [...watchers]) watcher();
}

/** The number of unread messages, as text: of the newest 100, and `+` if there are more; empty for none. */
export function useUnread() {
  const organization = selectedOrganization();
  const [found, setFound] = useState({ ids: /** @type {string[]} */ ([]), more: false });
  const load = async () => {
    const page = await get('/_sandbox/messages', { after: current().upTo, limit: 100 });
    setFound({ ids: page.data.map(({ id }) => id), more: page.next !== null });
  };
  const reload = () => void load().catch(() => {});
  useEffect(reload, [organization]);
  useEffect(() => {
    const update = () => setFound((old) => ({ ...old, ids: old.ids.filter((id) => !isRead(id)) }));
    watchers.add(update);
    return () => void watchers.delete(update);
  }, []);
  useEvents((event) => {
    if (event.type === 'reset' || (event.type === 'change' && event.resource === 'messages')) reload();
    if (event.type === 'message') setFound((old) => ({ ...old, ids: [event.id, ...old.ids.filter((id) =>
      id !== event.id)] }));
  });
  const count = found.ids.filter((id) => !isRead(id)).length;
  return found.more ? `${count}+` : count > 0 ? String(count) : '';
}
