"""A sandbox of both services for each test.

Under pytest, the fixture `svc_sandbox` is one. Elsewhere: `with Sandbox() as sandbox: …`
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from typing import Any, Literal, Union, overload
from urllib.error import HTTPError
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener
from weakref import WeakSet

__all__ = [
    "Attachment",
    "Clock",
    "Due",
    "Fault",
    "Hook",
    "Link",
    "Message",
    "Messages",
    "Sandbox",
    "SandboxError",
    "Webhook",
]

#: Seconds: as in the package for Node, whose test runners give a test 5 s.
TIMEOUT = 4.0


class SandboxError(AssertionError):
    """What the sandbox refused, or what did not happen in it."""

    #: The status of the response, if there is one.
    status: int | None = None


class Sandbox:
    """A server of its own: in memory, on free ports, and ended with this process."""

    def __init__(self) -> None:
        options = ["--addr", "127.0.0.1:0", "--smtp", "127.0.0.1:0", "--in-memory", "--until-stdin-closes"]
        self._process = subprocess.Popen(
            [_svc(), "--quiet", "sandbox", "serve", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Settings of another sandbox are not for this one, but for those of a whole test run.
            env={name: value for name, value in os.environ.items() if name in _KEPT or not name.startswith("SVC_")},
        )
        _OPEN.add(self)
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self.close()
            raise SandboxError("the sandbox did not start; its error is on standard error")
        addresses = json.loads(line)
        self.url: str = addresses["http"]
        smtp_host, _, smtp_port = addresses["smtp"].rpartition(":")
        email_key, extraction_key = "mk_test_sandbox", "sk_test_sandbox"
        #: What `svc sandbox exec` sets, for the application under test.
        self.env: dict[str, str] = {
            "SANDBOX_URL": self.url,
            "EMAIL_URL": self.url,
            "EMAIL_KEY": email_key,
            "EMAIL_FROM": "hello@sandbox.test",
            "EXTRACTION_URL": self.url,
            "EXTRACTION_KEY": extraction_key,
            "SMTP_HOST": smtp_host,
            "SMTP_PORT": smtp_port,
            "SVC_EMAIL_URL": self.url,
            "SVC_EMAIL_KEY": email_key,
            "SVC_EXTRACTION_URL": self.url,
            "SVC_EXTRACTION_KEY": extraction_key,
            "SVC_SANDBOX": "1",
            "SVC_SANDBOX_URL": self.url,
        }
        self.messages = Messages(self)
        self.clock = Clock(self)
        self._receivers: list[_Receiver] = []

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Sandbox {self.url}>"

    def close(self) -> None:
        for receiver in getattr(self, "_receivers", []):
            receiver.stop()
        with self._process:
            self._process.kill()

    @overload
    def webhook(self, events: Sequence[str]) -> Hook: ...

    @overload
    def webhook(self, events: Sequence[str], *, url: str) -> Webhook: ...

    def webhook(self, events: Sequence[str], *, url: str | None = None) -> Webhook:
        """Subscribes a receiver in this process, which verifies what it gets, to events of one service.

        With a `url`, it subscribes a receiver of the application.
        """
        __tracebackhide__ = True
        if isinstance(events, str):
            raise TypeError('webhook needs a list of events, such as ["email.bounced"]')
        if url is not None:
            return Webhook(*self._subscribe(events, url), url=url)
        receiver = _Receiver()
        self._receivers.append(receiver)
        with receiver.changed:
            id, receiver.secret = self._subscribe(events, receiver.url)
        return Hook(id, receiver.secret, receiver.url, receiver, tuple(events))

    def due(self) -> list[Due]:
        """What is due next by the sandbox's clock, at most 100, the earliest first."""
        __tracebackhide__ = True
        found = self.call("GET", "/_sandbox/due?limit=100")["data"]
        return [Due(_time(each["at"]), each["kind"], each["subject"], each["description"]) for each in found]

    def _subscribe(self, events: Sequence[str], url: str) -> tuple[str, str]:
        __tracebackhide__ = True
        extraction = any(event.startswith("extraction.") for event in events)
        path, key, secret = (
            ("/v1/webhooks", "EXTRACTION_KEY", "secret")
            if extraction
            else ("/api/v1/webhooks", "EMAIL_KEY", "signingSecret")
        )
        webhook = self.call("POST", path, {"url": url, "events": list(events)}, key=self.env[key])
        return webhook["id"], webhook[secret]

    def fault(
        self,
        operation: str,
        *,
        status: int | None = None,
        retry_after: int | None = None,
        latency: float | None = None,
        drop: Literal["before", "after", "midway"] | None = None,
        times: int = 1,
    ) -> Fault:
        """Makes the next requests of an operation fail, or wait for `latency` seconds.

        As a context manager, it ends with the block.
        """
        __tracebackhide__ = True
        fault = {
            "operation": operation,
            "status": status,
            "headers": None if retry_after is None else {"retry-after": str(retry_after)},
            "latency": None if latency is None else _milliseconds(latency),
            "drop": drop,
            "times": times,
        }
        given = {name: value for name, value in fault.items() if value is not None}
        return Fault(self, operation, self.call("POST", "/_sandbox/faults", given)["id"])

    def smtp_fault(
        self,
        step: Literal["connect", "auth", "mail", "rcpt", "data"],
        *,
        status: int | None = None,
        text: str | None = None,
        to: str | None = None,
        sender: str | None = None,
        greylist: bool = False,
        share: float | None = None,
        latency: float | None = None,
        slow: bool = False,
        drop: Literal["before", "after"] | None = None,
        times: int | None = None,
    ) -> Fault:
        """Makes a step of the next SMTP sessions fail with a code and a text, or wait for `latency` seconds.

        `to` and `sender` are patterns, such as `*@slow.test`. As a context manager, it ends with the block.
        """
        __tracebackhide__ = True
        fault = {
            "smtp": step,
            "status": status,
            "body": text,
            "to": to,
            "from": sender,
            "greylist": greylist or None,
            "share": share,
            "latency": None if latency is None else _milliseconds(latency),
            "slow": slow or None,
            "drop": drop,
            "times": times,
        }
        given = {name: value for name, value in fault.items() if value is not None}
        return Fault(self, f"smtp {step}", self.call("POST", "/_sandbox/faults", given)["id"])

    def settle(self) -> None:
        """Returns when all that is due has happened: mail, events and deliveries."""
        __tracebackhide__ = True
        self.call("POST", "/_sandbox/settle", {})

    def call(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Any:
        """Makes any other request of the control interface, or of a service with a `key`."""
        __tracebackhide__ = True
        content = self._request(method, path, body, key)
        return json.loads(content) if content else None

    def _request(self, method: str, path: str, body: object = None, key: str | None = None) -> bytes:
        __tracebackhide__ = True
        request = Request(self.url + path, method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("content-type", "application/json")
        if key:
            request.add_header("authorization", f"Bearer {key}")
        try:
            with _DIRECT.open(request) as response:
                return bytes(response.read())
        except HTTPError as error:
            with error:
                message = _message_of_error(error.read().decode(errors="replace"))
                failure = SandboxError(f"{method} {path.partition('?')[0]}: {message}")
                failure.status = error.code
        raise failure


class Messages:
    """The mail that has arrived, sent and received."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def wait(self, *, to: str, subject: Subject | None = None, timeout: float = TIMEOUT) -> Message:
        """The newest message to `to` whose subject has `subject` in it, in any case, or matches it.

        It is there at once or arrives within `timeout` seconds. The error names what has arrived instead,
        and why mail has not.
        """
        __tracebackhide__ = True
        if not to:
            raise TypeError("wait needs the recipient, such as to='ada@example.test'")
        end = time.monotonic() + timeout
        after = None
        while True:
            # What does not fit is not looked at again.
            found = self._pages(to=to, after=after)
            for each in found:
                if _fits(each["subject"], subject):
                    return _message(self._sandbox, self._sandbox.call("GET", f"/_sandbox/messages/{each['id']}"))
            after = found[0]["id"] if found else after
            left = _milliseconds(max(0.0, end - time.monotonic()))
            try:
                self._sandbox.call("GET", f"/_sandbox/messages/wait?{_query(to=to, after=after, timeout=left)}")
            except SandboxError as error:
                if error.status != 408:
                    raise
                wanted = f"no message to {to}{_wanted(subject)} within {timeout:g} s"
                instead = str(error).partition("; ")[2]
                error.args = ("; ".join([wanted, instead, *self._obstacles(to)]),)
                raise

    def all(self, *, to: str | None = None, subject: Subject | None = None) -> list[Message]:
        """What has arrived once all that is due has happened, the oldest first."""
        __tracebackhide__ = True
        found = [self._sandbox.call("GET", f"/_sandbox/messages/{each['id']}") for each in self._list(to, subject)]
        return [_message(self._sandbox, each) for each in found]

    def subjects(self, *, to: str | None = None, subject: Subject | None = None) -> list[str]:
        """The subjects of what has arrived once all that is due has happened, the oldest first."""
        __tracebackhide__ = True
        return [each["subject"] for each in self._list(to, subject)]

    def delete(self, *, to: str | None = None, subject: Subject | None = None) -> None:
        """Deletes what has arrived once all that is due has happened."""
        __tracebackhide__ = True
        if isinstance(subject, re.Pattern):
            for each in self._list(to, subject):
                self._sandbox.call("DELETE", f"/_sandbox/messages/{each['id']}")
            return
        self._sandbox.settle()
        self._sandbox.call("DELETE", f"/_sandbox/messages?{_query(to=to, subject=subject)}")

    def check(self, message: Message, *, programs: Sequence[str] = ("Apple Mail", "Gmail", "Outlook")) -> list[str]:
        """The features of HTML and CSS in the message that not all of these mail programs support."""
        __tracebackhide__ = True
        query = _query(programs=",".join(programs))
        found = self._sandbox.call("GET", f"/_sandbox/messages/{message.id}/html-check?{query}")
        return [f"{each['title']}: not in {', '.join(each['none'])}" for each in found["features"] if each["none"]]

    def _list(self, to: str | None, subject: Subject | None) -> list[dict[str, Any]]:
        __tracebackhide__ = True
        self._sandbox.settle()
        return [each for each in self._pages(to=to) if _fits(each["subject"], subject)][::-1]

    def _pages(self, **query: str | None) -> list[dict[str, Any]]:
        """All messages, the newest first."""
        __tracebackhide__ = True
        found: list[dict[str, Any]] = []
        cursor = None
        while True:
            page = self._sandbox.call("GET", f"/_sandbox/messages?{_query(**query, limit='100', cursor=cursor)}")
            found += page["data"]
            cursor = page["next"]
            if not cursor:
                return found

    def _obstacles(self, to: str | None) -> Iterator[str]:
        """The newest emails that have not arrived, and the newest request to send that was refused."""
        __tracebackhide__ = True
        emails = self._sandbox.call("GET", f"/_sandbox/emails?{_query(address=to)}")["data"]
        for email in [each for each in emails if each["status"] in ("queued", "sending", "bounced", "failed")][:3]:
            later = email["status"] == "queued" and email["scheduledAt"]
            state = f"scheduled for {later}" if later else email["status"]
            yield f'"{email["subject"]}" to {", ".join(email["to"])} is {state}'
        requests = self._sandbox.call("GET", "/_sandbox/requests?status=4xx&limit=100")["data"]
        for request in [each for each in requests if each["operation"].startswith("emails.send")][:1]:
            body = request.get("responseBody") or {"text": "no body"}
            yield f"{request['method']} {request['path']} got {request['status']}: {_message_of_error(body['text'])}"


@dataclass(frozen=True)
class Message:
    """A message as its recipient has it."""

    id: str
    #: The header: `Shop <hello@sandbox.test>`.
    from_: str
    #: The mailbox that has this message.
    recipient: str
    subject: str
    text: str | None
    html: str | None
    headers: dict[str, str]
    attachments: list[Attachment]
    links: list[Link]
    codes: list[str]

    @property
    def code(self) -> str:
        """The one-time code of the message."""
        __tracebackhide__ = True
        if not self.codes:
            raise SandboxError(f'"{self.subject}" has no one-time code; its text is {self.text!r}')
        return self.codes[0]

    def link(self, text: str = "") -> Link:
        """The first link with `text`, in any case, in what it shows or in its URL."""
        __tracebackhide__ = True
        for link in self.links:
            if text.lower() in f"{link.text} {link.url}".lower():
                return link
        urls = ", ".join(f"{link.text or 'no text'} ({link.url})" for link in self.links)
        raise SandboxError(f'"{self.subject}" has no link "{text}"; it has {urls or "no links"}')


@dataclass(frozen=True)
class Link:
    url: str
    text: str | None

    @property
    def query(self) -> dict[str, str]:
        """The parameters of the URL."""
        return dict(parse_qsl(urlsplit(self.url).query, keep_blank_values=True))


@dataclass(frozen=True)
class Attachment:
    filename: str | None
    content_type: str
    content: bytes


@dataclass(frozen=True)
class Webhook:
    id: str
    #: The signing secret.
    secret: str
    url: str


@dataclass(frozen=True)
class Hook(Webhook):
    """A webhook whose deliveries this process receives and verifies."""

    _receiver: _Receiver
    _events: tuple[str, ...]

    def next(self, event: str | None = None, *, timeout: float = TIMEOUT) -> dict[str, Any]:
        """The oldest delivery that was not yet returned, of this event or of any, within `timeout` seconds.

        The error names what has arrived instead.
        """
        __tracebackhide__ = True
        if event is not None and event not in self._events:
            raise SandboxError(f"this hook does not get {event}: it has subscribed to {', '.join(self._events)}")
        return self._receiver.next(event, timeout)


class _Receiver:
    """Receives the deliveries of one webhook, and keeps those that the service signed."""

    secret = ""

    def __init__(self) -> None:
        self._waiting: list[dict[str, Any]] = []
        self._arrived: list[str] = []
        #: What arrives while this is held waits for it.
        self.changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                given = self.headers.get("x-service-signature") or f"sha256={self.headers.get('mail-signature', '')}"
                self.send_response(204 if receiver._take(given, body) else 401)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        # The default is half a second, which each test would wait for at its end.
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def next(self, event: str | None, timeout: float) -> dict[str, Any]:
        __tracebackhide__ = True

        def found() -> dict[str, Any] | None:
            return next((each for each in self._waiting if event in (None, each["event"])), None)

        with self.changed:
            delivery = self.changed.wait_for(found, timeout)
            if delivery:
                self._waiting.remove(delivery)
                return delivery
            arrived = f"since the start came {', '.join(self._arrived)}" if self._arrived else "nothing came"
        raise SandboxError(f"no {event or 'delivery'} arrived within {timeout:g} s; {arrived}")

    def _take(self, given: str, body: bytes) -> bool:
        with self.changed:
            expected = "sha256=" + hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
            is_genuine = hmac.compare_digest(expected.encode(), given.encode())
            if is_genuine:
                delivery = json.loads(body)
                recipient = delivery["data"].get("recipient")
                self._waiting.append(delivery)
                self._arrived.append(delivery["event"] + (f" for {recipient}" if recipient else ""))
            else:
                self._arrived.append("a request whose signature does not match")
            self.changed.notify_all()
        return is_genuine


@dataclass(frozen=True)
class Due:
    """Something that is due."""

    at: datetime
    #: `email`, `recipient`, `relay`, `message`, `delivery` or `expiry`.
    kind: str
    #: The ID of the email, of the message or of the delivery; the key of an expiry.
    subject: str
    #: What happens, to whom and why.
    description: str


class Clock:
    """The sandbox's clock, which scheduled emails, retries and delays wait for."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def now(self) -> datetime:
        """The time of the sandbox."""
        __tracebackhide__ = True
        return _time(self._sandbox.call("GET", "/_sandbox/clock")["now"])

    def advance(
        self, by: str | None = None, /, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0
    ) -> None:
        """Moves the clock by `"24h"` or by `hours=24`, and returns when what fell due has happened."""
        __tracebackhide__ = True
        if by is not None:
            if days or hours or minutes or seconds:
                raise TypeError('advance takes a text such as "24h" or numbers such as hours=24, not both')
        else:
            wanted = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
            if wanted < 0:
                raise ValueError(f"the clock never goes back: cannot advance it by {wanted:g} s")
            by = _milliseconds(wanted)
        self._sandbox.call("POST", "/_sandbox/clock", {"advance": by})


class Fault:
    """Requests that fail, or that failed."""

    def __init__(self, sandbox: Sandbox, operation: str, id: str) -> None:
        self._sandbox = sandbox
        self._operation = operation
        self._path = f"/_sandbox/faults/{id}"
        self._hits: int | None = None

    @property
    def hits(self) -> int:
        """How many requests it has affected."""
        __tracebackhide__ = True
        if self._hits is not None:
            return self._hits
        return len(self._sandbox.call("GET", self._path)["hits"])

    def __repr__(self) -> str:
        return f"<Fault {self._operation}>"

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        __tracebackhide__ = True
        self._hits = self.hits
        self._sandbox.call("DELETE", self._path)


#: A part of a subject, in any case, or what it matches.
Subject = Union[str, "re.Pattern[str]"]

_KEPT = ("SVC_SANDBOX_SEED", "SVC_SANDBOX_SET")

#: Requests to this machine pass through no proxy.
_DIRECT = build_opener(ProxyHandler({}))

_OPEN: WeakSet[Sandbox] = WeakSet()


def _let_go() -> None:
    """A sandbox ends with the process that started it, not with the last of its forks."""
    for sandbox in _OPEN:
        assert sandbox._process.stdin
        sandbox._process.stdin.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _message(sandbox: Sandbox, found: dict[str, Any]) -> Message:
    path = f"/_sandbox/messages/{found['id']}/attachments"
    return Message(
        id=found["id"],
        from_=found["from"],
        recipient=found["recipient"],
        subject=found["subject"],
        text=found["text"],
        html=found["html"],
        headers=found["headers"],
        attachments=[
            Attachment(each["filename"], each["contentType"], sandbox._request("GET", f"{path}/{number}"))
            for number, each in enumerate(found["attachments"], start=1)
        ],
        links=[Link(each["url"], each["text"]) for each in found["links"]],
        codes=found["codes"],
    )


def _message_of_error(body: str) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return body


def _fits(text: str, subject: Subject | None) -> bool:
    if isinstance(subject, re.Pattern):
        return subject.search(text) is not None
    return (subject or "").lower() in text.lower()


def _wanted(subject: Subject | None) -> str:
    if isinstance(subject, re.Pattern):
        return f" that matches {subject.pattern!r}"
    return f' with "{subject}"' if subject else ""


def _time(text: str) -> datetime:
    # Python 3.10 reads no `Z`.
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _query(**parameters: str | None) -> str:
    return urlencode({name: value for name, value in parameters.items() if value is not None})


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _svc() -> str:
    """The program of this package, or another on the PATH."""
    try:
        files = metadata.files("svc-cli") or []
    except metadata.PackageNotFoundError:
        files = []
    installed = [str(file.locate()) for file in files if file.stem == "svc" and file.parent.name in ("bin", "Scripts")]
    for program in [*installed, "svc"]:
        found = shutil.which(program)
        if found:
            return found
    raise SandboxError("the program `svc` is not on the PATH; `pip install svc-cli` installs it")
