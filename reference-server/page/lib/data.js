// Data of the views: loaded from the control interface, and kept current by events.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { get } from './api.js';
import { useEvents, useThrottle } from './live.js';

/** @typedef {import('./live.js').Event} Event */
/** @typedef {import('./api.js').Problem} Problem */
/** @typedef {{id: string} & Record<string, unknown>} Item */

/**
 * Loads a value, and loads it again when an event concerns it.
 * @template T
 * @param {() => Promise<T>} load
 * @param {any[]} deps
 * @param {(event: Event) => boolean} [concerns]
 */
export function useResource(load, deps, concerns = () => false) {
  const [state, setState] = useState(
    /** @type {{data: T | null, error: Problem | null, key: string}} */ ({ data: null, error: null, key: '' }),
  );
  const turn = useRef(0);
  const key = JSON.stringify(deps);
  const reload = useCallback(async () => {
    const mine = ++turn.current;
    try {
      const data = await load();
      if (mine === turn.current) setState({ data, error: null, key });
    } catch (error) {
      if (mine === turn.current) setState((old) => ({ data: old.key === key ? old.data : null,
        error: /** @type {Problem} */ (error), key }));
    }
  }, [key]);
  useEffect(() => {
    reload();
  }, [key]);
  const throttled = useThrottle(reload, 500);
  useEvents((event) => {
    if (event.type === 'reset' || concerns(event)) throttled();
  });
  const current = state.key === key;
  return { data: current ? state.data : null, error: current ? state.error : null, reload };
}

/**
 * The items of the list at a path.
 * @template {string} P
 * @typedef {import('control').Returns<'GET', P> extends {data: (infer I)[]} ? I : never} ItemOf
 */

/**
 * All items of a list that is short as a rule.
 * @template {string} const P
 * @param {P} path @returns {Promise<ItemOf<P>[]>}
 */
export async function loadAll(path) {
  /** @type {ItemOf<P>[]} */
  const found = [];
  let cursor;
  do {
    /** @type {{data: ItemOf<P>[], next: string | null}} */
    const page = await get(/** @type {string} */ (path), { limit: PAGE, cursor });
    found.push(...page.data);
    cursor = page.next;
  } while (cursor && found.length < 5000);
  return found;
}

/**
 * A list, newest first, page by page. New and changed items appear as events name them. It is loaded
 * as far as the opened item, so that the item has its neighbours.
 * @template {string} const P
 * @param {P} path
 * @param {import('./api.js').Params} params
 * @param {string} type The type of the events about an item of this list.
 * @param {string} opened The ID of the opened item.
 * @returns {{items: ItemOf<P>[], next: string | null, loaded: boolean, error: Problem | null,
 *   more: () => Promise<void>, refresh: () => Promise<void>}}
 */
export function useList(path, params, type, opened) {
  const key = JSON.stringify([path, params]);
  const [state, setState] = useState(
    /** @type {{key: string, items: Item[], next: string | null, loaded: boolean, error: Problem | null}} */ ({
      key, items: [], next: null, loaded: false, error: null,
    }),
  );
  const loading = useRef(false);
  const turn = useRef(0);

  const refresh = useCallback(async (all = false) => {
    const mine = ++turn.current;
    try {
      const page = await get(/** @type {string} */ (path), { ...params, limit: PAGE });
      if (mine !== turn.current) return;
      setState((old) => {
        const same = !all && old.key === key && old.items.length > page.data.length;
        const last = page.data.at(-1)?.id;
        const at = same && last ? old.items.findIndex((item) => item.id === last) : -1;
        if (at < 0) return { key, items: page.data, next: page.next, loaded: true, error: null };
        const rest = old.items.slice(at + 1);
        return { key, items: [...page.data, ...rest], next: old.next, loaded: true, error: null };
      });
    } catch (error) {
      if (mine === turn.current) setState((old) => ({ ...old, key, items: old.key === key ? old.items : [],
        loaded: true, error: /** @type {Problem} */ (error) }));
    }
  }, [key]);

  const more = useCallback(async () => {
    if (loading.current || !state.next || state.key !== key) return;
    loading.current = true;
    try {
      const cursor = state.next;
      const page = await get(/** @type {string} */ (path), { ...params, limit: PAGE, cursor });
      setState((old) => {
        if (old.key !== key || old.next !== cursor) return old;
        const known = new Set(old.items.map((item) => item.id));
        const items = [...old.items, ...page.data.filter((/** @type {Item} */ item) => !known.has(item.id))];
        return { ...old, items, next: page.next };
      });
    } catch (error) {
      setState((old) => ({ ...old, error: /** @type {Problem} */ (error) }));
    } finally {
      loading.current = false;
    }
  }, [key, state.next, state.key]);

  useEffect(() => {
    refresh();
  }, [key]);
  // IDs grow with time, so an item that is not in the list ends the search for it.
  const last = state.items.at(-1)?.id;
  const isMissing = last !== undefined && opened !== '' && opened < last;
  useEffect(() => {
    if (isMissing) more();
  }, [isMissing, more]);
  const throttled = useThrottle(refresh, 200);
  useEvents((event) => {
    if (event.type === 'reset') throttled();
    // Items below the first page may be deleted, too.
    if (event.type === 'change' && event.method === 'DELETE' && path.endsWith(event.resource)) refresh(true);
    if (event.type !== type || !('id' in event)) return;
    // An item below the first page is not loaded again.
    setState((old) => {
      const at = old.items.findIndex((item) => item.id === event.id);
      if (at < PAGE) return old;
      const items = [...old.items];
      const { type: _, ...changed } = event;
      items[at] = { ...items[at], ...changed };
      return { ...old, items };
    });
    throttled();
  });
  if (state.key !== key) return { items: [], next: null, loaded: false, error: null, more, refresh };
  const items = /** @type {any[]} */ (state.items);
  return { items, next: state.next, loaded: state.loaded, error: state.error, more, refresh };
}

/**
 * How many items a list has, as far as it was loaded; nothing before.
 * @param {{items: unknown[], next: string | null, loaded: boolean}} list
 */
export const matchesOf = ({ items, next, loaded }) => (loaded ? `${items.length}${next ? '+' : ''}` : undefined);

const PAGE = 100;
