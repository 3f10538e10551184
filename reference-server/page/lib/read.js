// Which messages were opened in this browser. IDs grow with time, so one ID marks all
// messages up to it as read.

import { useEffect, useState } from 'preact/hooks';
import { get, selectedOrganization } from './api.js';
import { useEvents, useThrottle } from './live.js';

const MAX = 2000;

/** The organization that `state` is of. @type {string | null | undefined} */
let owner;
let state = { upTo: '', ids: /** @type {Set<string>} */ (new Set()) };
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

/** Forgets messages that were deleted. @param {string[]} ids */
export function forget(ids) {
  for (const id of ids) current().ids.delete(id);
  save();
}

/** Forgets the messages that others have deleted. Those that were read are among the newest as a rule. */
async function forgetDeleted() {
  const { upTo, ids } = current();
  const read = [...ids].filter((id) => id > upTo).sort();
  if (read.length === 0) return;
  const left = new Set();
  let cursor;
  do {
    /** @type {import('control').MessageSummaryList} */
    const page = await get(/** @type {string} */ ('/_sandbox/messages'), { after: upTo, limit: 100, cursor });
    for (const { id } of page.data) left.add(id);
    cursor = page.data.some(({ id }) => id <= read[0]) ? null : page.next;
  } while (cursor);
  forget(read.filter((id) => !left.has(id)));
}

/** The number of unread messages. */
export function useUnread() {
  const organization = selectedOrganization();
  const [total, setTotal] = useState(0);
  const [, update] = useState(0);
  const load = async () => setTotal((await get('/_sandbox/messages/count', { after: current().upTo })).count);
  const reload = () => void load().catch(() => {});
  // With many messages a second, the server is asked a few times.
  const soon = useThrottle(reload, 500);
  const clean = useThrottle(() => void forgetDeleted().then(load).catch(() => {}), 1000);
  useEffect(reload, [organization]);
  useEffect(() => {
    let { upTo } = current();
    const read = () => {
      if (upTo !== current().upTo) reload();
      ({ upTo } = current());
      update((n) => n + 1);
    };
    watchers.add(read);
    return () => void watchers.delete(read);
  }, []);
  useEvents((event) => {
    if (event.type === 'message') soon();
    if (event.type === 'reset' || (event.type === 'change' && event.resource === 'messages')) clean();
  });
  const { upTo, ids } = current();
  return Math.max(0, total - [...ids].filter((id) => id > upTo).length);
}
