// The URL of a view: `#/VIEW/ID?NAME=VALUE`. The organization is a parameter of it, except
// for the default one, so that a URL can be shared and reloaded.

import { useEffect, useState } from 'preact/hooks';

/** @typedef {{view: string, id: string, params: Record<string, string>}} Route */

/** @returns {Route} */
export function current() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [view, ...rest] = path.split('/');
  const params = Object.fromEntries(new URLSearchParams(query ?? ''));
  return { view: view || 'mailbox', id: decode(rest.join('/')), params };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** @param {string} view @param {string} [id] @param {Record<string, string | null | undefined>} [params] */
export function href(view, id = '', params = {}) {
  const query = new URLSearchParams();
  const organization = current().params.organization;
  for (const [name, value] of Object.entries({ organization, ...params })) {
    if (value) query.set(name, value);
  }
  const text = query.toString();
  return `#/${view}${id ? `/${encodeURIComponent(id)}` : ''}${text ? `?${text}` : ''}`;
}

/** @param {string} to @param {boolean} [replace] */
export function go(to, replace = false) {
  if (to === location.hash) return;
  if (replace) {
    history.replaceState(null, '', to);
    dispatchEvent(new HashChangeEvent('hashchange'));
  } else {
    location.hash = to;
  }
}

export function useRoute() {
  const [route, setRoute] = useState(current);
  useEffect(() => {
    const update = () => setRoute(current());
    addEventListener('hashchange', update);
    return () => removeEventListener('hashchange', update);
  }, []);
  return route;
}
