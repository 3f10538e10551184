"""What the OpenAPI descriptions do not express: values of custom formats, the key
of each service, and the existing template."""

import re
import uuid

import schemathesis
from hypothesis import strategies as st

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=12)
durations = st.builds("{}{}".format, st.integers(0, 99), st.sampled_from(["ms", "s"]))

schemathesis.openapi.format("mailbox", st.builds("{}@sandbox.test".format, names))
schemathesis.openapi.format("domain-name", st.builds("{}.test".format, names))
schemathesis.openapi.format("duration-with-unit", durations)
schemathesis.openapi.format("uri", st.builds("https://{}.test/".format, names))


@schemathesis.serializer("message/rfc822")
def message(context, value):
    return value if isinstance(value, bytes) else str(value).encode()


class Key:
    key = ""

    def get(self, case, context):
        return self.key

    def set(self, case, data, context):
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.auth().apply_to(path_regex="^/api/v1/")
class EmailKey(Key):
    key = "mk_test_sandbox"


@schemathesis.auth().apply_to(path_regex="^/v1/")
class ExtractionKey(Key):
    key = "sk_test_sandbox"


@schemathesis.hook
def before_call(context, case, kwargs):
    # A repeated key returns the first response again, for a resource that may have
    # been deleted since.
    key = case.headers.get("Idempotency-Key")
    if key is not None and re.fullmatch("[!-~]{1,255}", key):
        case.headers["Idempotency-Key"] = str(uuid.uuid4())
    # The server rightly rejects an unknown template.
    if isinstance(case.body, dict) and isinstance(case.body.get("templateId"), str):
        case.body["templateId"] = "welcome"
    # Nor can a description say that an organization named twice must be the same one.
    named = (case.query or {}).get("organization")
    if isinstance(named, str) and isinstance(case.body, dict) and isinstance(case.body.get("organization"), str):
        case.body["organization"] = named
    if case.meta and case.meta.generation.mode.is_positive and isinstance(case.body, dict):
        keep_rules(case.operation.path, case.body)


def keep_rules(path, body):
    """Keeps the rules between fields, which are in words: generators of clients cannot read them."""
    if path == "/_sandbox/clock":
        change = next((name for name in ("freeze", "advance", "resume") if body.get(name)), "resume")
        value = body[change] if change == "advance" else True
        body.clear()
        body[change] = value
    if path == "/_sandbox/faults":
        if body.get("status") is None:
            body.pop("body", None)
            body.pop("headers", None)
        if all(body.get(name) is None for name in ("status", "drop", "latency")):
            body["latency"] = "1ms"
        if body.get("status") is not None and body.get("drop") is not None:
            body["drop"] = "midway"
    if path == "/_sandbox/keys":
        of_email = body.get("service") == "email"
        body.pop("scope" if of_email else "scopes", None)
        if of_email and not body.get("scopes"):
            body["scopes"] = ["emails:send"]
        if not of_email and not body.get("scope"):
            body["scope"] = "full"
