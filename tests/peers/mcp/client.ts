// Uses `svc mcp` with the SDK for TypeScript, over both transports.

import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { CallToolResult, Implementation } from '@modelcontextprotocol/sdk/types.js';

const info: Implementation = { name: 'peers', version: '1' };
const env = process.env as Record<string, string>;

/** Sends the version of the handshake that a client of that time sends. */
function inVersion(version: string, transport: Transport): Transport {
  const send = transport.send.bind(transport);
  transport.send = (message, options) => {
    if ('method' in message && message.method === 'initialize' && message.params) {
      message.params.protocolVersion = version;
    }
    return send(message, options);
  };
  return transport;
}

async function use(version: string, transport: Transport, subject: string): Promise<void> {
  const client = new Client(info);
  let negotiated: string | undefined;
  const bare = inVersion(version, transport);
  const set = bare.setProtocolVersion?.bind(bare);
  bare.setProtocolVersion = (chosen) => {
    negotiated = chosen;
    set?.(chosen);
  };
  await client.connect(bare);
  assert.equal(negotiated, version);
  assert.equal(client.getServerVersion()?.name, 'svc');

  // The SDK compiles the output schemas, and checks each result with them.
  const { tools } = await client.listTools();
  assert.ok(tools.length >= 15 && tools.length <= 25, String(tools.length));
  assert.ok((await client.listResources()).resources.length > 0);
  assert.equal((await client.listPrompts()).prompts.length, 3);

  const call = async (name: string, args: Record<string, unknown>): Promise<any> => {
    const result = (await client.callTool({ name, arguments: args })) as CallToolResult;
    assert.ok(!result.isError, JSON.stringify(result.content));
    return result.structuredContent?.result;
  };
  const plan = await call('plan_email', {
    from: 'hello@sandbox.test',
    to: ['ada@example.test'],
    subject,
    text: 'Hello',
  });
  const sent = await call('send_planned', { token: plan.token });
  assert.equal((await call('get', { action: 'email', id: sent.id })).id, sent.id);
  const again = await client.callTool({ name: 'send_planned', arguments: { token: plan.token } });
  assert.equal(again.isError, true);
  await call('sandbox_clock', { action: 'settle' });
  const messages = await call('sandbox_messages', { action: 'list', subject });
  assert.equal(messages.length, 1);
  await client.close();
}

const url = new URL(env.MCP_URL!);
const requestInit = { headers: { authorization: `Bearer ${env.SVC_MCP_TOKEN}` } };
for (const version of ['2025-11-25', '2025-06-18']) {
  const stdio = new StdioClientTransport({ command: env.SVC!, args: ['mcp'], env });
  await use(version, stdio, `ts stdio ${version}`);
  const http = new StreamableHTTPClientTransport(url, { requestInit });
  await use(version, http as Transport, `ts http ${version}`);
  console.log(`typescript: ${version} over stdio and HTTP`);
}
await assert.rejects(new Client(info).connect(new StreamableHTTPClientTransport(url) as Transport));
