// Which messages were opened in this browser. IDs grow with time, so one ID marks all
// messages up to it as read.

const MAX = 2000;

/** @param {string} origin */
function load(origin) {
  try {
    const stored = JSON.parse(localStorage.getItem(origin) ?? '{}');
    return { upTo: String(stored.upTo ?? ''), ids: new Set(stored.ids ?? []) };
  } catch {
    return { upTo: '', ids: new Set() };
  }
}

const NAME = 'svc.read';
const state = load(NAME);

/** @param {string} id */
export function isRead(id) {
  return id <= state.upTo || state.ids.has(id);
}

/** @param {string} id */
export function markRead(id) {
  if (isRead(id)) return;
  state.ids.add(id);
  save();
}

/** @param {string} id */
export function markAllRead(id) {
  if (id > state.upTo) state.upTo = id;
  state.ids = new Set([...state.ids].filter((one) => String(one) > state.upTo));
  save();
}

function save() {
  localStorage.setItem(NAME, JSON.stringify({ upTo: state.upTo, ids: [...state.ids].slice(-MAX) }));
}
