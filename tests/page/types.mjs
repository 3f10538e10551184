// Writes `control.d.ts`: the types of the control interface, as `/openapi/control.json` of the
// server describes them. The scripts of the page name them: `import('control').Message`.

import { writeFileSync } from 'node:fs';
import { call, start } from './support.mjs';

/** The TypeScript type of a JSON schema. */
function type(schema) {
  if (schema.$ref) return schema.$ref.split('/').at(-1);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(' | ');
  const parts = [];
  if (schema.properties) parts.push(object(schema));
  for (const one of schema.allOf ?? []) parts.push(type(one));
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices && !choices.every((one) => one.required && !one.type)) parts.push(`(${choices.map(type).join(' | ')})`);
  if (parts.length > 0) return parts.join(' & ');
  return [schema.type ?? 'any'].flat().map((name) => simple(name, schema)).join(' | ');
}

function object({ properties, required = [] }) {
  const fields = Object.entries(properties);
  const lines = fields.map(([name, one]) => `${JSON.stringify(name)}${required.includes(name) ? '' : '?'}: ${type(one)};`);
  return `{ ${lines.join(' ')} }`;
}

function simple(name, schema) {
  if (name === 'array') return `(${type(schema.items ?? {})})[]`;
  if (name === 'object') return `Record<string, ${schema.additionalProperties?.type ? type(schema.additionalProperties) : 'any'}>`;
  return name === 'integer' ? 'number' : name;
}

/** `Get<P>`: what a GET request for the path returns. The more specific path comes first. */
function get(paths) {
  const found = Object.entries(paths).filter(([, methods]) => methods.get).map(([path, { get: { responses } }]) => {
    const schema = responses['200']?.content['application/json']?.schema;
    return [path.replace(/\{[^}]*\}/g, '${string}'), schema ? type(schema) : 'string'];
  });
  found.sort(([one], [other]) => one.split('${string}').length - other.split('${string}').length || other.length - one.length);
  const fixed = found.filter(([path]) => !path.includes('$'));
  const others = found.filter(([path]) => path.includes('$')).sort(([one], [other]) => other.length - one.length);
  const lines = [...fixed, ...others].map(([path, one]) => `  P extends \`${path}\` ? ${one} :\n`);
  return `export type Get<P extends string> =\n${lines.join('')}  any;\n`;
}

const server = await start([]);
const { paths, components } = await call(server, 'GET', '/openapi/control.json');
const types = Object.entries(components.schemas).map(([name, schema]) => `export type ${name} = ${type(schema)};\n`);
writeFileSync(new URL('control.d.ts', import.meta.url), types.join('') + get(paths));
process.exit(0);
