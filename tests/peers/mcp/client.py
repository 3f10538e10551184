"""Uses `svc mcp` with the SDK for Python: over both transports, in the newest version of the protocol,
which has no handshake, and in the one before."""

import asyncio
import json
import os

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

VERSIONS = {"2026-07-28": "2026-07-28", "legacy": "2025-11-25"}
URL = os.environ["MCP_URL"]
TOKEN = os.environ["SVC_MCP_TOKEN"]


def http(token):
    client = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=30)
    return streamable_http_client(URL, http_client=client)


async def use(client, version, subject):
    assert client.protocol_version == version, client.protocol_version

    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert 15 <= len(tools) <= 25, tools.keys()
    assert all(tool.input_schema["type"] == "object" for tool in tools.values())
    assert tools["list"].annotations.read_only_hint
    assert tools["delete"].annotations.destructive_hint
    resources = (await client.list_resources()).resources
    assert resources
    assert (await client.read_resource(resources[0].uri)).contents[0].text
    assert (await client.list_resource_templates()).resource_templates
    prompts = (await client.list_prompts()).prompts
    assert len(prompts) == 3, prompts
    arguments = {argument.name: "ada@example.test" for argument in prompts[0].arguments}
    assert "ada@example.test" in (await client.get_prompt(prompts[0].name, arguments)).messages[0].content.text

    async def call(name, **arguments):
        result = await client.call_tool(name, arguments)
        assert not result.is_error, (name, result.content)
        return result.structured_content["result"]

    email = {"from": "hello@sandbox.test", "to": ["ada@example.test"], "subject": subject, "text": "Hello"}
    plan = await call("plan_email", **email)
    assert "ada@example.test" in json.dumps(plan["recipients"]), plan
    sent = await call("send_planned", token=plan["token"])
    again = await client.call_tool("send_planned", {"token": plan["token"]})
    assert again.is_error and "no_plan" in again.content[0].text, again
    await call("sandbox_clock", action="settle")
    assert (await call("get", action="email", id=sent["id"]))["status"] == "delivered"
    messages = await call("sandbox_messages", action="list", to="ada@example.test", subject=subject)
    assert len(messages) == 1, messages

    wrong = await client.call_tool("get", {"action": "email", "id": "missing"})
    assert wrong.is_error and "not_found" in wrong.content[0].text, wrong
    try:
        await client.call_tool("no_such_tool", {})
    except MCPError as error:
        assert "unknown tool" in str(error)
    else:
        raise AssertionError("an unknown tool was called")


async def main():
    stdio = StdioServerParameters(command=os.environ["SVC"], args=["mcp"], env=dict(os.environ))
    for mode, version in VERSIONS.items():
        async with Client(stdio, mode=mode) as client:
            await use(client, version, f"stdio {version}")
        async with Client(http(TOKEN), mode=mode) as client:
            await use(client, version, f"http {version}")
        print(f"python: {version} over stdio and HTTP")
    # Without a version, the newest is found.
    async with Client(stdio) as client:
        assert client.protocol_version == "2026-07-28", client.protocol_version
    async with httpx2.AsyncClient() as client:
        for headers in [{}, {"authorization": "Bearer wrong"}]:
            assert (await client.post(URL, headers=headers, json={})).status_code == 401


asyncio.run(main())
