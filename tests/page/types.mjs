// Writes `control.d.ts` and `email.d.ts`: the types of the control interface and of the email service,
// as the server's OpenAPI describes them. The scripts of the page name them: `import('control').Message`.

import { writeFileSync } from 'node:fs';
import { call, start } from './support.mjs';

/** The TypeScript type of a JSON schema. */
function type(schema) {
  if (schema.$ref && !schema.properties) return schema.$ref.split('/').at(-1);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ');
  const parts = schema.$ref ? [schema.$ref.split('/').at(-1)] : [];
  if (schema.properties) parts.push(object(schema));
  for (const one of schema.allOf ?? []) parts.push(type(one));
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices && !choices.every((one) => one.required && !one.type)) parts.push(`(${choices.map(type).join(' | ')})`);
  if (parts.length > 0) return parts.join(' & ');
  return [schema.type ?? 'any'].flat().map((name) => simple(name, schema)).join(' | ');
}

function object({ properties, required = [] }) {
  const fields = Object.entries(properties);
  // A request has no fields that are only read.
  const isRequired = (name, one) => required.includes(name) && !one.readOnly;
  const lines = fields.map(([name, one]) => `${JSON.stringify(name)}${isRequired(name, one) ? '' : '?'}: ${type(one)};`);
  return `{ ${lines.join(' ')} }`;
}

function simple(name, schema) {
  if (name === 'array') return `(${type(schema.items ?? {})})[]`;
  if (name === 'object') return `Record<string, ${schema.additionalProperties?.type ? type(schema.additionalProperties) : 'any'}>`;
  return name === 'integer' ? 'number' : name;
}

/**
 * `Returns<M, P>` and `Body<M, P>`: what a request with this method to this path returns, and what its
 * body is. The more specific path comes first.
 */
function requests(paths) {
  const found = Object.entries(paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => {
    const { responses, requestBody } = operation;
    const success = Object.entries(responses ?? {}).find(([status]) => status.startsWith('2'))?.[1];
    const returned = success?.content?.['application/json']?.schema;
    const body = requestBody?.content?.['application/json']?.schema;
    return { method: method.toUpperCase(), path: path.replace(/\{[^}]*\}/g, '${string}'),
      returned: returned ? type(returned) : success?.content ? 'string' : 'null', body: body ? type(body) : 'undefined' };
  }).filter(({ method }) => /^(GET|POST|PUT|PATCH|DELETE)$/.test(method)));
  const isFixed = ({ path }) => !path.includes('$');
  found.sort((one, other) => isFixed(other) - isFixed(one) || other.path.length - one.path.length);
  const choose = (name, value) => `export type ${name}<M extends string, P extends string> =\n${found.map((one) =>
    `  [M, P] extends ['${one.method}', \`${one.path}\`] ? ${value(one)} :\n`).join('')}  any;\n`;
  return choose('Returns', (one) => one.returned) + choose('Body', (one) => one.body);
}

const server = await start([]);
for (const name of ['control', 'email']) {
  const { paths, components } = await call(server, 'GET', `/openapi/${name}.json`);
  const types = Object.entries(components.schemas).map(([name, schema]) => `export type ${name} = ${type(schema)};\n`);
  writeFileSync(new URL(`${name}.d.ts`, import.meta.url), types.join('') + requests(paths));
}
process.exit(0);
