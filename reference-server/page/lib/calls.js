// The call that sends an email, in the languages that people copy.

import { BASE, SEEDED } from './api.js';
import { rust, shell } from './text.js';

/**
 * Who calls: the key, where it is known, and its header.
 * @typedef {{key: string | null, header: string, from: string}} Caller
 */

/**
 * @param {import('control').EmailStory} story
 * @param {Caller | null} caller
 * @returns {{complete: boolean, calls: {id: string, name: string, text: string}[]}}
 */
export function callsOf(story, caller) {
  const { body, complete } = bodyOf(story);
  return {
    complete,
    calls: [
      { id: 'svc', name: 'svc', text: asCaller(svc(body), caller?.key) },
      { id: 'curl', name: 'curl', text: curl(body, caller) },
      { id: 'rust', name: 'Rust', text: program(body) },
    ],
  };
}

/** The email of the request, or what is known of it. @param {import('control').EmailStory} story */
function bodyOf(story) {
  const { request, email } = story;
  if (request?.operation === 'emails.send' && request.requestBody && !request.requestBody.truncated) {
    try {
      const body = JSON.parse(request.requestBody.text);
      if (body && typeof body === 'object' && !Array.isArray(body)) return { body, complete: true };
    } catch {
      // The log has only a part of it.
    }
  }
  /** @type {any} */
  const body = { from: email.from, to: email.to, subject: email.subject };
  for (const name of /** @type {const} */ (['cc', 'bcc',
    'replyTo'])) if (email[name]?.length > 0) body[name] = email[name];
  if (email.tags && Object.keys(email.tags).length > 0) body.tags = email.tags;
  if (email.scheduledAt) body.scheduledAt = email.scheduledAt;
  if (email.templateId) body.templateId = email.templateId;
  else body.text = '…';
  return { body, complete: false };
}

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
function curl(body, caller) {
  const { key, header = 'authorization' } = caller ?? {};
  return [`curl ${location.origin}${BASE}/api/v1/emails`,
    `-H "${header}: ${header === 'authorization' ? 'Bearer ' : ''}${key ?? '$SVC_EMAIL_KEY'}"`,
    "-H 'content-type: application/json'", `-d ${shell(JSON.stringify(body))}`].join(' \\\n  ');
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
