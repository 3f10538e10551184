// Requests to the control interface, and to the documented operations that change domains,
// audiences and contacts. Everything that the page shows comes through here.

import { current } from './route.js';

/** A response with a status other than 2xx. */
export class ApiError extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    // Compatibility settings give the errors of documented operations another shape.
    const error = body?.error ?? body ?? {};
    super(error.message ?? error.detail ?? `the server responded with status ${status}`);
    this.status = status;
    /** @type {string | undefined} */
    this.code = error.code;
    /** @type {{field: string, message: string}[]} */
    this.fields = error.details?.fields ?? [];
  }
}

const TOKEN = 'svc.controlToken';

/** Called when the server requires the control token, or rejects the one that it was sent. */
let onUnauthorized = () => {};

/** @param {() => void} handler */
export function whenUnauthorized(handler) {
  onUnauthorized = handler;
}

/** Keeps the control token until the tab is closed. @param {string} token */
export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

/** @returns {Record<string, string>} */
export function authorization() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { authorization: `Bearer ${token}` } : {};
}

/** The organization of all requests: the one that the URL of the page names. */
export function selectedOrganization() {
  return current().params.organization ?? null;
}

/**
 * The URL of a path, with the selected organization and the parameters that are not empty.
 * @param {string} path
 * @param {Record<string, any>} [params]
 */
export function url(path, params = {}) {
  // An ID may come from a link: it must not turn the path into another one.
  if (/[?#\\]|%2e|\/\.{0,2}(\/|$)/i.test(path)) throw new ApiError(0, { error: { message: 'not an ID' } });
  const query = new URLSearchParams();
  const organization = selectedOrganization();
  if (organization && !NO_ORGANIZATION.test(path)) query.set('organization', organization);
  for (const [name, value] of Object.entries(params)) {
    if (value !== undefined && value !== null && value !== '') query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

const NO_ORGANIZATION = /^\/_sandbox\/(clock|health|organizations|reset)$|^\/(api|openapi|page|v1)\//;

/**
 * @param {string} method
 * @param {string} path
 * @param {{params?: Record<string, any>, body?: any, key?: string}} [options]
 * @returns {Promise<any>}
 */
async function request(method, path, options = {}) {
  const response = await raw(method, path, options);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/**
 * @param {string} method
 * @param {string} path
 * @param {{params?: Record<string, any>, body?: any, key?: string}} [options]
 */
async function raw(method, path, options = {}) {
  /** @type {Record<string, string>} */
  const headers = options.key ? { [keyHeader]: keyHeader === 'authorization' ? `Bearer ${options.key}` :
    options.key } : authorization();
  /** @type {RequestInit} */
  const init = { method, headers };
  if (options.body !== undefined) {
    headers['content-type'] = 'application/json';
    init.body = JSON.stringify(options.body);
  }
  const target = url(path, options.params);
  let response;
  try {
    response = await fetch(target, init);
  } catch {
    throw new ApiError(0, { error: { message: 'the server cannot be reached' } });
  }
  if (response.ok) return response;
  if (response.status === 401 && !options.key) onUnauthorized();
  const body = await response.json().catch(() => null);
  throw new ApiError(response.status, body);
}

/**
 * What a GET request for the path returns, as `/openapi/control.json` describes it.
 * @template {string} const P
 * @param {P} path @param {Record<string, any>} [params] @returns {Promise<import('control').Get<P>>}
 */
export const get = (path, params) => request('GET', path, { params });
/** @param {string} path @param {Record<string, any>} [params] */
export const text = async (path, params) => (await raw('GET', path, { params })).text();
/** @param {string} path @param {Record<string, any>} [params] */
export const blob = async (path, params) => (await raw('GET', path, { params })).blob();
/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => request('POST', path, { body });
/** @param {string} path @param {any} body */
export const put = (path, body) => request('PUT', path, { body });
/** @param {string} path */
export const del = (path) => request('DELETE', path);

/**
 * A request to an operation of the email service, with a key of the selected organization.
 * @param {string} method @param {string} path @param {any} [body]
 * @returns {Promise<any>}
 */
export async function documented(method, path, body) {
  // The setting `key-header` gives the key another header, which the description names.
  keyHeader ||= (await get('/openapi/email.json')).components.securitySchemes.emailKey.name ?? 'authorization';
  try {
    return await request(method, path, { body, key: await key() });
  } catch (error) {
    // The key was revoked, or the server was reset.
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    seeded = '';
    sessionStorage.removeItem(keyName());
    return request(method, path, { body, key: await key() });
  }
}

/** The header of the keys of the email service, once it is known. */
let keyHeader = '';

const keyName = () => `svc.key.${selectedOrganization() ?? ''}`;
/** @type {Map<string, Promise<string>>} */
const creating = new Map();

/** The key of the seeded organization, unless the server rejected it. */
let seeded = 'mk_test_sandbox';

/** The key for the documented operations: created once for each organization and tab. */
function key() {
  if (!selectedOrganization() && seeded) return Promise.resolve(seeded);
  const name = keyName();
  const stored = sessionStorage.getItem(name);
  if (stored) return Promise.resolve(stored);
  let created = creating.get(name);
  if (!created) {
    const scopes = ['domains:manage', 'contacts:manage'];
    created = post('/_sandbox/keys', { service: 'email', scopes })
      .then((found) => {
        sessionStorage.setItem(name, found.key);
        return found.key;
      })
      .finally(() => creating.delete(name));
    creating.set(name, created);
  }
  return created;
}
