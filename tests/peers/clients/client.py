"""Uses the generated client for Python."""

import os

from svc_reference_server_client import AuthenticatedClient, Client
from svc_reference_server_client.api.audiences import audiences_create, audiences_delete, audiences_list
from svc_reference_server_client.api.emails import emails_get, emails_send, emails_send_batch
from svc_reference_server_client.api.sandbox_faults import sandbox_faults_add, sandbox_faults_get
from svc_reference_server_client.api.sandbox_keys import sandbox_keys_create, sandbox_keys_revoke
from svc_reference_server_client.api.sandbox_messages import (
    sandbox_messages_clear,
    sandbox_messages_get_raw,
    sandbox_messages_list,
    sandbox_messages_wait,
)
from svc_reference_server_client.api.sandbox_events import sandbox_events_wait
from svc_reference_server_client.api.sandbox_server import sandbox_clock_change, sandbox_settle
from svc_reference_server_client.models import (
    ClockChange,
    Error,
    CreateAudience,
    CreateEmail,
    CreateFault,
    CreateKey,
    Settle,
)

url = os.environ["SANDBOX_URL"]
email = AuthenticatedClient(base_url=url, token="mk_test_sandbox")
sandbox = Client(base_url=url)


def new(subject, **more):
    return CreateEmail(from_="Shop <hello@sandbox.test>", to="ada@example.test", subject=subject, **more)


begin = sandbox_events_wait.sync(client=sandbox)

# Send, and read a delivered email.
sent = emails_send.sync(client=email, body=new("Your code", text="Your code is 482913."))
message = sandbox_messages_wait.sync(client=sandbox, to="ada@example.test", subject="code", timeout="30s")
assert message.codes == ["482913"] and message.email_id == sent.id, message
settled = sandbox_settle.sync(client=sandbox, body=Settle(timeout="30s"))
assert settled.settled and not settled.frozen, settled
found = emails_get.sync(client=email, id=sent.id)
assert found.status == "delivered" and found.recipients[0].status == "delivered", found
assert found.last_event == "email.delivered" and found.text == "Your code is 482913.", found
assert b"Subject: Your code" in sandbox_messages_get_raw.sync(client=sandbox, id=message.id)
changes = sandbox_events_wait.sync(client=sandbox, after=begin.next_)
assert {"email", "message"} <= {change.type_ for change in changes.data}, changes

# A batch, a list, and a deletion.
batch = emails_send_batch.sync(client=email, body=[new("First"), new("Second")])
assert [result.status for result in batch.results] == ["queued", "queued"], batch
sandbox_settle.sync(client=sandbox, body=Settle())
listed = sandbox_messages_list.sync(client=sandbox, limit=2)
assert {one.subject for one in listed.data} == {"First", "Second"} and listed.next_, listed
assert sandbox_messages_clear.sync_detailed(client=sandbox).status_code == 204
assert sandbox_messages_list.sync(client=sandbox).data == []
audience = audiences_create.sync(client=email, body=CreateAudience(name="Readers"))
assert [one.id for one in audiences_list.sync(client=email)] == [audience.id]
audiences_delete.sync_detailed(client=email, id=audience.id)
assert audiences_list.sync(client=email) == []

# A fault, and the error of the service.
fault = sandbox_faults_add.sync(client=sandbox, body=CreateFault(operation="emails.send", status=503))
refused = emails_send.sync_detailed(client=email, body=new("Refused"))
assert refused.status_code == 503 and isinstance(refused.parsed, Error), refused
assert refused.parsed.error.code == "unavailable", refused
assert len(sandbox_faults_get.sync(client=sandbox, id=fault.id).hits) == 1

# The clock.
frozen = sandbox_clock_change.sync(client=sandbox, body=ClockChange(freeze=True))
later = sandbox_clock_change.sync(client=sandbox, body=ClockChange(advance="24h"))
assert (later.now - frozen.now).total_seconds() == 24 * 3600, (frozen, later)
sandbox_clock_change.sync(client=sandbox, body=ClockChange(resume=True))

# A key with one scope.
key = sandbox_keys_create.sync(client=sandbox, body=CreateKey(service="email", scopes=["emails:read"]))
reader = AuthenticatedClient(base_url=url, token=key.key)
assert emails_get.sync(client=reader, id=sent.id).id == sent.id
refused = emails_send.sync(client=reader, body=new("Refused"))
assert refused.error.details.required_scope == "emails:send", refused
assert sandbox_keys_revoke.sync_detailed(client=sandbox, id=key.id).status_code == 204
assert emails_get.sync_detailed(client=reader, id=sent.id).status_code == 401
print("Python: the generated client works")
