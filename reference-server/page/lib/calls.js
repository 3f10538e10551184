// The call that sends an email, in the languages that people copy.

import { BASE, SEEDED, blob, get } from './api.js';
import { rust, shell } from './text.js';

/**
 * Who calls: the key, where it is known, and its header.
 * @typedef {{key: string | null, header: string, from: string}} Caller
 */

/** @param {any} body @param {Caller | null} caller */
export const callsOf = (body, caller) => [
  { id: 'svc', name: 'svc', text: asCaller(svc(body), caller?.key) },
  { id: 'curl', name: 'curl', text: curl(body, caller) },
  { id: 'typescript', name: 'TypeScript', text: typescript(body, caller) },
  { id: 'python', name: 'Python', text: python(body, caller) },
  { id: 'rust', name: 'Rust', text: program(body) },
];

/**
 * The email of a story as a request sends it: that of its own request, or what is stored of it. `lacks` says
 * what is not known, so that the request would send another email.
 * @param {import('control').EmailStory} story
 * @returns {Promise<{body: any, lacks: string}>}
 */
export async function bodyOf(story) {
  const { request, email, messages } = story;
  const recorded = request?.operation === 'emails.send' ? request.requestBody : null;
  const isRedacted = recorded?.text.includes('[redacted]') ?? false;
  /** @type {any} */
  let body;
  let lacks = '';
  if (recorded && !recorded.truncated && (!isRedacted || messages.length === 0)) {
    body = JSON.parse(recorded.text);
    if (isRedacted) lacks = 'The log redacts secrets, and no message of this email was delivered that has them.';
  } else {
    body = { from: email.from, to: email.to, subject: email.subject };
    for (const name of /** @type {const} */ (['cc', 'bcc',
      'replyTo'])) if (email[name]?.length > 0) body[name] = email[name];
    if (email.tags && Object.keys(email.tags).length > 0) body.tags = email.tags;
    if (email.scheduledAt) body.scheduledAt = email.scheduledAt;
    if (messages.length > 0) Object.assign(body, await contentOf(messages[0].id));
    else {
      body.text = '…';
      lacks = 'The log does not have all of the request, and no message of this email was delivered that has its '
        + 'content.';
    }
  }
  // Its time has passed.
  if (email.status !== 'queued') delete body.scheduledAt;
  return { body, lacks };
}

/** The fields of the header that the service writes itself. */
const OWN_FIELDS = new RegExp('^(?:from|to|cc|bcc|reply-to|sender|subject|date|message-id|mime-version|return-path'
  + '|received|content-.*|dkim-signature|authentication-results|received-spf)$', 'i');

/** The content of an email, from a message of it, as it was before its tracking was added. @param {string} id */
async function contentOf(id) {
  const message = await get(`/_sandbox/messages/${id}`);
  let { html } = message;
  for (const { url, tracked_url: tracked } of message.links) {
    if (tracked) html = html?.replaceAll(tracked, url.replaceAll('&', '&amp;').replaceAll('"', '&quot;')) ?? null;
  }
  html = html?.replace(/<img src="[^"]*\/t\/o\/eml_[^"]*" width="1" height="1" alt="">/, '') ?? null;
  const headers = Object.entries(message.headers).filter(([name]) => !OWN_FIELDS.test(name));
  const attachments = await Promise.all(message.attachments.map(async (one, n) => ({
    filename: one.filename ?? `attachment-${n + 1}`, contentType: one.contentType,
    ...(one.contentId && { contentId: one.contentId }),
    content: await base64(await blob(`/_sandbox/messages/${id}/attachments/${n + 1}`)) })));
  return {
    ...(html !== null && { html }), ...(message.text !== null && { text: message.text }),
    ...(headers.length > 0 && { headers: Object.fromEntries(headers) }), ...(attachments.length > 0 && { attachments }),
  };
}

/** @param {Blob} content @returns {Promise<string>} */
const base64 = (content) => new Promise((done, failed) => {
  const reader = new FileReader();
  reader.onload = () => done(String(reader.result).split(',')[1] ?? '');
  reader.onerror = () => failed(reader.error);
  reader.readAsDataURL(content);
});

/** @param {any} value @returns {any[]} */
const all = (value) => (value === undefined || value === null ? [] : Array.isArray(value) ? value : [value]);

/** @param {any} body */
function svc(body) {
  /** @type {string[]} */
  const lines = [];
  const option = (/** @type {string} */ name, /** @type {any} */ value) =>
    lines.push(`--${name} ${shell(String(value))}`);
  // Everything that has no option of its own, and texts that an option would read as a file.
  const { from, to, cc, bcc, replyTo, subject, html, text, headers, tags, scheduledAt, templateId, variables,
    ...rest } = body;
  const literal = (/** @type {any} */ value) => typeof value === 'string' && !/^[@-]/.test(value);
  if (Object.keys(rest).length > 0 || [html, text].some((one) => one !== undefined && one !== null && !literal(one))) {
    return `svc --sandbox emails send --body ${shell(JSON.stringify(body))}`;
  }
  option('from', from);
  for (const one of all(to)) option('to', one);
  for (const one of all(cc)) option('cc', one);
  for (const one of all(bcc)) option('bcc', one);
  for (const one of all(replyTo)) option('reply-to', one);
  if (subject !== undefined) option('subject', subject);
  if (text) option('text', text);
  if (html) option('html', html);
  for (const [name, value] of Object.entries(headers ?? {})) option('header', `${name}: ${value}`);
  for (const [name, value] of Object.entries(tags ?? {})) option('tag', `${name}=${value}`);
  if (templateId) option('template', templateId);
  for (const [name, value] of Object.entries(variables ?? {})) option('var', typeof value === 'string' ?
    `${name}=${value}` : `${name}:=${JSON.stringify(value)}`);
  if (scheduledAt) option('at', scheduledAt);
  return ['svc --sandbox emails send', ...lines].join(' \\\n  ');
}

/**
 * A command for this server and for the organization of the key.
 * @param {string} command @param {string | null} [key]
 */
export function asCaller(command, key) {
  const isDefault = /^http:\/\/(127\.0\.0\.1|localhost):4080$/.test(location.origin);
  return (isDefault ? '' : `SVC_SANDBOX_URL=${location.origin}${BASE} `)
    + (key && key !== SEEDED.email ? `SVC_EMAIL_KEY=${key} ` : '') + command;
}

/** @param {any} body @param {Caller | null} caller */
export function curl(body, caller) {
  const [name, value] = keyHeader(caller, '$SVC_EMAIL_KEY');
  return [`curl ${location.origin}${BASE}/api/v1/emails`, `-H "${name}: ${value}"`,
    "-H 'content-type: application/json'", `-d ${shell(JSON.stringify(body))}`].join(' \\\n  ');
}

/**
 * The header with the key. @param {Caller | null} caller @param {string} [unknown] @returns {[string, string]}
 */
function keyHeader(caller, unknown = 'KEY') {
  const { key, header = 'authorization' } = caller ?? {};
  return [header, `${header === 'authorization' ? 'Bearer ' : ''}${key ?? unknown}`];
}

/** @param {any} body @param {Caller | null} caller */
function typescript(body, caller) {
  const [name, value] = keyHeader(caller);
  const headers = JSON.stringify({ [name]: value, 'content-type': 'application/json' });
  return `const email = ${JSON.stringify(body, null, 2)};
const response = await fetch(${JSON.stringify(`${location.origin}${BASE}/api/v1/emails`)}, {
  method: "POST",
  headers: ${headers},
  body: JSON.stringify(email),
});
if (!response.ok) throw new Error(await response.text());
console.log(await response.json());`;
}

/** @param {any} body @param {Caller | null} caller */
function python(body, caller) {
  const [name, value] = keyHeader(caller);
  return `import json
from urllib.request import Request, urlopen

true, false, null = True, False, None  # With these, JSON is Python.
email = ${JSON.stringify(body, null, 4)}
headers = ${JSON.stringify({ [name]: value, 'content-type': 'application/json' })}
request = Request(${JSON.stringify(`${location.origin}${BASE}/api/v1/emails`)}, json.dumps(email).encode(), headers)
with urlopen(request) as response:
    print(json.load(response))`;
}

/** @param {any} body */
function program(body) {
  /** @type {string[]} */
  const lines = [];
  const [first, ...others] = all(body.to);
  for (const one of others) lines.push(`.to(${rust(one)})`);
  for (const one of all(body.cc)) lines.push(`.cc(${rust(one)})`);
  for (const one of all(body.bcc)) lines.push(`.bcc(${rust(one)})`);
  for (const one of all(body.replyTo)) lines.push(`.reply_to(${rust(one)})`);
  if (body.text) lines.push(`.text(${rust(body.text)})`);
  if (body.html) lines.push(`.html(${rust(body.html)})`);
  for (const [name, value] of Object.entries(body.headers ?? {})) {
    lines.push(`.header(${rust(name)}, ${rust(String(value))})`);
  }
  for (const [name, value] of Object.entries(body.tags ?? {})) {
    lines.push(`.tag(${rust(name)}, ${rust(String(value))})`);
  }
  for (const one of all(body.attachments)) {
    lines.push(`// .attachment(Attachment::from_path(${rust(one.filename ?? '')})?)`);
  }
  if (body.templateId) lines.push(`.template(${rust(body.templateId)})`);
  for (const [name, value] of Object.entries(body.variables ?? {})) {
    lines.push(`.variable(${rust(name)}, serde_json::json!(${JSON.stringify(value)}))`);
  }
  if (body.scheduledAt) lines.push(`.scheduled_at(${rust(body.scheduledAt)})`);
  const email = [`Email::new(${rust(body.from ?? '')}, ${rust(first ?? '')}, ${rust(body.subject ?? '')})`,
    ...lines].join('\n    ');
  return `use svc_sdk::EmailClient;
use svc_sdk::email::Email;

let client = EmailClient::builder(${rust(location.origin + BASE)}, std::env::var("SVC_EMAIL_KEY")?).build()?;
let email = ${email};
let accepted = client.emails().send(&email).await?;`;
}
