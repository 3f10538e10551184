// Requests to the control interface, and to the documented operations that change domains,
// audiences and contacts. Everything that the page shows comes through here.

import { current } from './route.js';

/** @typedef {{[name: string]: string | number | null | undefined}} Params */
/** @typedef {{message: string, status?: number, code?: string, fields?: {field: string, message: string}[]}} Problem */
/**
 * What a request to the control interface returns.
 * @template {string} M @template {string} P @typedef {import('control').Returns<M, P>} Returned
 */

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

/** The path of the server: empty, or such as `/mail` behind a proxy. */
export const BASE = new URL('../..', import.meta.url).pathname.replace(/\/$/, '');

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
 * @param {Params} [params]
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
  return BASE + (text ? `${path}?${text}` : path);
}

const NO_ORGANIZATION = /^\/_sandbox\/(clock|health|organizations|reset)$|^\/(api|openapi|page|v1)\//;

/**
 * @param {string} method
 * @param {string} path
 * @param {{params?: Params, body?: unknown, key?: string}} [options]
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
 * @param {{params?: Params, body?: unknown, key?: string}} [options]
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
 * @param {P} path @param {Params} [params] @returns {Promise<Returned<'GET', P>>}
 */
export const get = (path, params) => request('GET', path, { params });
/** @param {string} path @param {Params} [params] */
export const text = async (path, params) => (await raw('GET', path, { params })).text();
/** @param {string} path @param {Params} [params] */
export const blob = async (path, params) => (await raw('GET', path, { params })).blob();
/**
 * @template {string} const P
 * @param {P} path @param {import('control').Body<'POST', P>} [body] @param {Params} [params]
 * @returns {Promise<Returned<'POST', P>>}
 */
export const post = (path, body, params) => request('POST', path, { body: body ?? {}, params });
/**
 * @template {string} const P
 * @param {P} path @param {import('control').Body<'PUT', P>} body @returns {Promise<Returned<'PUT', P>>}
 */
export const put = (path, body) => request('PUT', path, { body });
/** @param {string} path @param {Params} [params] */
export const del = (path, params) => request('DELETE', path, { params });

/** @typedef {'email' | 'extraction'} Service */

/**
 * A request to a documented operation, with a key of the selected organization.
 * @template {string} const M @template {string} const P
 * @param {M} method @param {P} path @param {import('email').Body<M, P>} [body]
 * @returns {Promise<import('email').Returns<M, P>>}
 */
export async function documented(method, path, body) {
  const service = path.startsWith('/v1/') ? 'extraction' : 'email';
  await findKeyHeader();
  try {
    return await request(method, path, { body, key: await key(service) });
  } catch (error) {
    // The key was revoked, or the server was reset.
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    rejected.add(SEEDED[service]);
    sessionStorage.removeItem(keyName(service));
    return request(method, path, { body, key: await key(service) });
  }
}

/** The header of the keys of the services, once it is known. */
let keyHeader = '';

/** The setting `key-header` gives the key another header, which the description names. */
export async function findKeyHeader() {
  keyHeader ||= (await get('/openapi/email.json')).components.securitySchemes.emailKey.name ?? 'authorization';
  return keyHeader;
}

/** All scopes of the email service. */
export const SCOPES = /** @type {const} */ (['emails:send', 'emails:read', 'contacts:manage', 'domains:manage',
  'webhooks:manage']);

/** The keys of the seeded organization, which are public knowledge. @type {Record<Service, string>} */
export const SEEDED = { email: 'mk_test_sandbox', extraction: 'sk_test_sandbox' };
/** @type {Set<string>} */
const rejected = new Set();

/** @param {Service} service */
const keyName = (service) => `svc.key.${service}.${selectedOrganization() ?? ''}`;
/** @type {Map<string, Promise<string>>} */
const creating = new Map();

/**
 * A key of the organization that this tab knows: a seeded one, or one that the page created.
 * @param {Service} [service]
 */
export function knownKey(service = 'email') {
  const seeded = !selectedOrganization() && !rejected.has(SEEDED[service]);
  return seeded ? SEEDED[service] : sessionStorage.getItem(keyName(service));
}

/** @param {string} key @param {string} organization */
export function keepKey(key, organization) {
  sessionStorage.setItem(`svc.key.email.${organization}`, key);
}

/** A key with all scopes: created once for each organization and tab. @param {Service} [service] */
export function key(service = 'email') {
  const known = knownKey(service);
  if (known) return Promise.resolve(known);
  const name = keyName(service);
  let created = creating.get(name);
  if (!created) {
    created = post('/_sandbox/keys', service === 'email' ? { service, scopes: [...SCOPES] } :
      { service, scope: 'full' })
      .then((found) => {
        sessionStorage.setItem(name, String(found.key));
        return String(found.key);
      })
      .finally(() => creating.delete(name));
    creating.set(name, created);
  }
  return created;
}
