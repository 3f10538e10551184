// Uses the generated types, with openapi-fetch.

import assert from 'node:assert/strict';
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.js';

const baseUrl = process.env.SANDBOX_URL!;
const withKey = (key: string) =>
  createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } });
const email = withKey('mk_test_sandbox');
const sandbox = createClient<paths>({ baseUrl });

const mail = (subject: string): components['schemas']['CreateEmail'] => ({
  from: 'Shop <hello@sandbox.test>',
  to: ['bob@example.test'],
  subject,
  text: 'Your code is 482913.',
});

/** The data of a response, or the error of the service. */
function data<T>(result: { data?: T; error?: components['schemas']['Error'] }): T {
  if (result.data === undefined) throw new Error(result.error?.error.message ?? 'no data');
  return result.data;
}

// Send, and read a delivered email.
const sent = data(await email.POST('/api/v1/emails', { body: mail('Your code') }));
const query = { to: 'bob@example.test', timeout: '30s' };
const message = data(await sandbox.GET('/_sandbox/messages/wait', { params: { query } }));
assert.deepEqual(message.codes, ['482913']);
assert.equal(message.emailId, sent.id);
const settled = data(await sandbox.POST('/_sandbox/settle', { body: { timeout: '30s' } }));
assert.equal(settled.settled, true);
const byId = { params: { path: { id: sent.id } } };
const found = data(await email.GET('/api/v1/emails/{id}', byId));
const status: components['schemas']['EmailStatus'] = found.status;
assert.equal(status, 'delivered');
assert.equal(found.recipients[0]?.status, 'delivered');
const links = { params: { path: { id: message.id } } };
const text: (string | null)[] = data(await sandbox.GET('/_sandbox/messages/{id}/links', links))
  .links.map((link) => link.text);
assert.deepEqual(text, []);

// A batch, a list, and a deletion.
const batch = data(await email.POST('/api/v1/emails/batch', { body: [mail('First'), mail('Second')] }));
assert.deepEqual(batch.results.map((result) => 'status' in result && result.status), ['queued', 'queued']);
await sandbox.POST('/_sandbox/settle', { body: {} });
const page = { params: { query: { to: 'bob@example.test', limit: 2 } } };
const list = data(await sandbox.GET('/_sandbox/messages', page));
assert.deepEqual(list.data.map((one) => one.subject).sort(), ['First', 'Second']);
const deleted = await sandbox.DELETE('/_sandbox/messages', { params: { query: { to: 'bob@example.test' } } });
assert.equal(deleted.response.status, 204);
assert.deepEqual(data(await sandbox.GET('/_sandbox/messages', page)).data, []);

// A fault, and the error of the service.
const fault = data(await sandbox.POST('/_sandbox/faults', { body: { operation: 'emails.send', status: 429 } }));
const limited = await email.POST('/api/v1/emails', { body: mail('Refused') });
assert.equal(limited.error?.error.code, 'rate_limited');
const affected = data(await sandbox.GET('/_sandbox/faults/{id}', { params: { path: { id: fault.id } } }));
assert.equal(affected.hits.length, 1);

// The clock.
const frozen = data(await sandbox.POST('/_sandbox/clock', { body: { freeze: true } }));
const later = data(await sandbox.POST('/_sandbox/clock', { body: { advance: '24h' } }));
assert.equal(Date.parse(later.now) - Date.parse(frozen.now), 24 * 3600 * 1000);
await sandbox.POST('/_sandbox/clock', { body: { resume: true } });

// A key with one scope.
const scopes: components['schemas']['CreateKey'] = { service: 'email', scopes: ['emails:read'] };
const key = data(await sandbox.POST('/_sandbox/keys', { body: scopes }));
const reader = withKey(key.key!);
assert.equal(data(await reader.GET('/api/v1/emails/{id}', byId)).id, sent.id);
const forbidden = await reader.POST('/api/v1/emails', { body: mail('Refused') });
assert.equal(forbidden.error?.error.details?.required_scope, 'emails:send');
await sandbox.DELETE('/_sandbox/keys/{id}', { params: { path: { id: key.id } } });
assert.equal((await reader.GET('/api/v1/emails/{id}', byId)).response.status, 401);
console.log('TypeScript: the generated client works');
