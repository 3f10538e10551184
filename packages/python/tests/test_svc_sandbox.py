from __future__ import annotations

import hashlib
import hmac
import re
import signal
import smtplib
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from svc_sandbox import Sandbox, SandboxError

ADA = "ada@example.test"


def send(sandbox: Sandbox, to: str = ADA, subject: str = "Welcome", text: str = "Hello", **more: object) -> None:
    email = {"from": sandbox.env["EMAIL_FROM"], "to": to, "subject": subject, "text": text, **more}
    sandbox.call("POST", "/api/v1/emails", email, key=sandbox.env["EMAIL_KEY"])


class Receiver:
    """Keeps the requests of webhooks: their headers and bodies."""

    def __init__(self) -> None:
        received: list[tuple[dict[str, str], bytes]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                received.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.received = received
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    with receiver.server:
        thread = threading.Thread(target=receiver.server.serve_forever)
        thread.start()
        yield receiver
        receiver.server.shutdown()
        thread.join()


def test_a_message_has_links_codes_and_attachments(svc_sandbox: Sandbox) -> None:
    send(
        svc_sandbox,
        text="Your code: 482913",
        html='<a href="https://shop.test/help">Help</a> <a href="https://shop.test/c?token=a%2Bb&x=">Confirm</a>',
        attachments=[
            {"filename": "a.txt", "content": "YQ==", "contentType": "text/plain"},
            {"filename": "b.bin", "content": "/w==", "contentType": "application/octet-stream"},
        ],
    )
    mail = svc_sandbox.messages.wait(to=ADA, subject="welc")
    assert (mail.from_, mail.recipient, mail.subject) == ("hello@sandbox.test", ADA, "Welcome")
    assert mail.link().text == "Help"
    assert mail.link("confirm").query == {"token": "a+b", "x": ""}
    assert mail.link("/c?").url == "https://shop.test/c?token=a%2Bb&x="
    assert mail.code == "482913"
    assert [(file.filename, file.content) for file in mail.attachments] == [("a.txt", b"a"), ("b.bin", b"\xff")]


def test_a_message_is_checked_against_mail_programs(svc_sandbox: Sandbox) -> None:
    send(svc_sandbox, html='<p style="border-radius: 4px">Hello</p>')
    mail = svc_sandbox.messages.wait(to=ADA)
    assert svc_sandbox.messages.check(mail) == ["border-radius: not in Outlook (Windows, Windows Mail)"]
    assert svc_sandbox.messages.check(mail, programs=["Apple Mail"]) == []
    with pytest.raises(SandboxError, match='no data about "Elm"'):
        svc_sandbox.messages.check(mail, programs=["Elm"])


def test_what_is_missing_is_said_beside_what_is_there(svc_sandbox: Sandbox) -> None:
    send(svc_sandbox, text="Help: https://shop.test/help")
    mail = svc_sandbox.messages.wait(to=ADA)
    with pytest.raises(SandboxError, match=r'"Welcome" has no link "Confirm"; .* \(https://shop.test/help\)'):
        mail.link("Confirm")
    with pytest.raises(SandboxError, match=r"no one-time code; its text is 'Help: https"):
        mail.code
    with pytest.raises(SandboxError, match="POST /api/v1/emails: the domain elsewhere.test"):
        send(svc_sandbox, **{"from": "hello@elsewhere.test"})
    with pytest.raises(ValueError, match="never goes back: cannot advance it by -3600 s"):
        svc_sandbox.clock.advance(hours=-1)


def test_a_wait_in_vain_says_why(svc_sandbox: Sandbox) -> None:
    def failure(to: str, subject: str | re.Pattern[str] | None = None) -> str:
        with pytest.raises(SandboxError) as raised:
            svc_sandbox.messages.wait(to=to, subject=subject, timeout=0.01)
        return str(raised.value)

    assert failure(ADA, "Hi") == f'no message to {ADA} with "Hi" within 0.01 s; the mailbox is empty'
    assert failure(ADA, re.compile("^H")).startswith(f"no message to {ADA} that matches '^H' within 0.01 s; ")
    send(svc_sandbox)
    send(svc_sandbox, subject="Reminder", scheduledAt="2100-01-01T00:00:00Z")
    send(svc_sandbox, to="bounced@example.test")
    svc_sandbox.settle()
    assert f'the mailbox has "Welcome" to {ADA} at ' in failure(ADA, "Hi")
    assert failure(ADA, "Hi").endswith(f'; "Reminder" to {ADA} is scheduled for 2100-01-01T00:00:00.000Z')
    assert failure("bounced@example.test").endswith('; "Welcome" to bounced@example.test is bounced')
    with pytest.raises(SandboxError):
        svc_sandbox.call("POST", "/api/v1/emails", {}, key="mk_test_unknown")
    svc_sandbox.settle()
    refused = "; POST /api/v1/emails got 401: the API key is unknown or was revoked"
    assert failure("bob@example.test").endswith(refused)


def test_the_clock_brings_what_is_scheduled(svc_sandbox: Sandbox) -> None:
    frozen = svc_sandbox.call("POST", "/_sandbox/clock", {"freeze": True})
    now = datetime.fromisoformat(frozen["now"].replace("Z", "+00:00"))
    send(svc_sandbox)
    send(svc_sandbox, subject="Reminder", scheduledAt=(now + timedelta(days=1)).isoformat())
    svc_sandbox.clock.advance(hours=23, minutes=59)
    assert svc_sandbox.messages.subjects(to=ADA) == ["Welcome"]
    svc_sandbox.clock.advance(seconds=60)
    assert svc_sandbox.messages.subjects(to=ADA) == ["Welcome", "Reminder"]
    assert [mail.text for mail in svc_sandbox.messages.all(to=ADA, subject="remind")] == ["Hello"]
    before = svc_sandbox.clock.now()
    assert before - now >= timedelta(days=1)
    svc_sandbox.clock.advance("24h")
    assert svc_sandbox.clock.now() - before == timedelta(days=1)


def test_what_python_lets_pass_is_refused(svc_sandbox: Sandbox) -> None:
    with pytest.raises(TypeError):
        svc_sandbox.messages.wait()  # type: ignore[call-arg]
    for nobody in ("", None):
        with pytest.raises(TypeError, match="wait needs the recipient"):
            svc_sandbox.messages.wait(to=nobody)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r'needs a list of events, such as \["email.bounced"\]'):
        svc_sandbox.webhook("email.bounced")
    with pytest.raises(TypeError, match='"24h" or numbers such as hours=24, not both'):
        svc_sandbox.clock.advance("24h", hours=1)


def test_what_is_due_next_is_told(svc_sandbox: Sandbox) -> None:
    assert svc_sandbox.due() == []
    send(svc_sandbox, subject="Reminder", scheduledAt="2999-01-01T00:00:00Z")
    [due] = svc_sandbox.due()
    assert (due.at.isoformat(), due.kind, due.subject[:4]) == ("2999-01-01T00:00:00+00:00", "email", "eml_")
    assert due.description == f'"Reminder" to {ADA} is sent, as scheduled'


def test_a_subject_may_be_a_regular_expression_and_messages_are_deleted(svc_sandbox: Sandbox) -> None:
    for subject in ("One", "Two", "Three"):
        send(svc_sandbox, subject=subject)
    send(svc_sandbox, to="bob@example.test")
    assert svc_sandbox.messages.wait(to=ADA, subject=re.compile("^tw", re.I)).subject == "Two"
    svc_sandbox.messages.delete(to=ADA, subject=re.compile("^T"))
    assert svc_sandbox.messages.subjects() == ["One", "Welcome"]
    svc_sandbox.messages.delete(to=ADA, subject="one")
    assert svc_sandbox.messages.subjects(subject="wel") == ["Welcome"]
    svc_sandbox.messages.delete()
    assert svc_sandbox.messages.subjects() == []


def test_a_hook_verifies_and_keeps_what_is_not_asked_for_yet(svc_sandbox: Sandbox) -> None:
    hook = svc_sandbox.webhook(["email.sent", "email.bounced", "email.opened"])
    send(svc_sandbox, to="bounced@example.test")
    bounced = hook.next("email.bounced")
    assert (bounced["event"], bounced["data"]["recipient"]) == ("email.bounced", "bounced@example.test")
    assert hook.next()["event"] == "email.sent"
    forged = Request(hook.url, b'{"event":"email.opened"}', {"mail-signature": "0" * 64})
    with pytest.raises(HTTPError, match="401"):
        urlopen(forged)
    extraction = svc_sandbox.webhook(["extraction.completed"])
    svc_sandbox.call("POST", "/_sandbox/extractions", {"event": "extraction.completed", "data": {"total": 12}})
    assert extraction.next("extraction.completed")["data"] == {"total": 12}
    came = "email.sent for bounced@example.test, email.bounced for bounced@example.test, a request whose signature"
    with pytest.raises(SandboxError, match=f"^no email.opened arrived within 0 s; since the start came {came}"):
        hook.next("email.opened", timeout=0)
    with pytest.raises(SandboxError, match="does not get email.failed: it has subscribed to email.sent, "):
        hook.next("email.failed")


def test_a_seed_file_reaches_a_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = tmp_path / "seed.toml"
    seed.write_text('[[organizations]]\nname = "Shop"\n')
    monkeypatch.setenv("SVC_SANDBOX_SEED", str(seed))
    with Sandbox() as sandbox:
        assert "Shop" in [each["name"] for each in sandbox.call("GET", "/_sandbox/organizations")]


def test_many_messages_are_all_listed(svc_sandbox: Sandbox) -> None:
    for number in range(101):
        send(svc_sandbox, subject=f"{number}")
    assert len(svc_sandbox.messages.subjects(to=ADA)) == 101
    assert svc_sandbox.messages.subjects(to="bob@example.test") == []


def test_a_fault_counts_its_hits_and_ends_with_the_block(svc_sandbox: Sandbox) -> None:
    with svc_sandbox.fault("emails.send", status=429, retry_after=0, times=3) as fault:
        assert fault.hits == 0
        with pytest.raises(SandboxError, match="rate limit"):
            send(svc_sandbox)
    send(svc_sandbox)
    assert fault.hits == 1
    dropped = svc_sandbox.fault("emails.send", latency=0.001, drop="before")
    with pytest.raises(OSError):
        send(svc_sandbox)
    assert dropped.hits == 1
    assert svc_sandbox.messages.subjects() == ["Welcome"]


def test_a_fault_of_smtp_refuses_a_recipient(svc_sandbox: Sandbox) -> None:
    with svc_sandbox.smtp_fault("rcpt", status=452, text="4.2.2 full", to="*@full.test") as fault:
        host, port = svc_sandbox.env["SMTP_HOST"], int(svc_sandbox.env["SMTP_PORT"])
        with smtplib.SMTP(host, port) as client:
            refused = client.sendmail("a@a.test", [ADA, "bo@full.test"], "Subject: x\r\n\r\nx")
            assert refused == {"bo@full.test": (452, b"4.2.2 full")}
    assert fault.hits == 1
    assert svc_sandbox.messages.wait(to=ADA).subject == "x"


def test_webhooks_are_signed_with_their_secret(svc_sandbox: Sandbox, receiver: Receiver) -> None:
    email = svc_sandbox.webhook(["email.bounced"], url=receiver.url)
    extraction = svc_sandbox.webhook(["extraction.completed"], url=receiver.url)
    send(svc_sandbox, to="bounced@example.test")
    svc_sandbox.settle()
    svc_sandbox.call("POST", "/_sandbox/extractions", {"event": "extraction.completed"})
    svc_sandbox.settle()
    [(headers, body), (more_headers, more_body)] = receiver.received
    assert headers["mail-signature"] == hmac.new(email.secret.encode(), body, hashlib.sha256).hexdigest()
    signature = hmac.new(extraction.secret.encode(), more_body, hashlib.sha256).hexdigest()
    assert more_headers["x-service-signature"] == f"sha256={signature}"


def test_the_environment_is_that_of_svc_sandbox_exec(svc_sandbox: Sandbox) -> None:
    program = "import os; print(*sorted(os.environ))"
    svc = f"{sysconfig.get_path('scripts')}/svc"
    command = [svc, "sandbox", "exec", "--", sys.executable, "-c", program]
    names = subprocess.run(command, env={"LC_CTYPE": "C.UTF-8"}, check=True, stdout=subprocess.PIPE, text=True).stdout
    # `svc` tells one run from the next by SVC_SANDBOX_RUN.
    assert set(names.split()) - {"LC_CTYPE", "SVC_SANDBOX_RUN"} == set(svc_sandbox.env)
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = svc_sandbox.env["EMAIL_FROM"], ADA, "By SMTP"
    with smtplib.SMTP(svc_sandbox.env["SMTP_HOST"], int(svc_sandbox.env["SMTP_PORT"])) as smtp:
        smtp.send_message(mail)
    assert svc_sandbox.messages.wait(to=ADA).subject == "By SMTP"


def test_settings_of_the_machine_do_not_reach_a_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVC_SANDBOX_EMAIL_KEY", "mk_test_another")
    monkeypatch.setenv("SVC_SANDBOX_DIR", "/dev/null")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with Sandbox() as sandbox:
        send(sandbox)


def test_a_sandbox_ends_with_its_program_though_a_fork_goes_on() -> None:
    program = "import os, sys, svc_sandbox; s = svc_sandbox.Sandbox(); os.fork() and print(s.url, flush=True); input()"
    # Both processes end with their standard input.
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        url = process.stdout.readline().strip()
        urlopen(f"{url}/readyz").close()
        process.send_signal(signal.SIGKILL)
        with pytest.raises(OSError):
            for _ in range(10_000):
                urlopen(f"{url}/readyz").close()


def test_a_sandbox_that_does_not_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("svc_sandbox._svc", lambda: "false")
    with pytest.raises(SandboxError, match="did not start"):
        Sandbox()
    monkeypatch.undo()
    monkeypatch.setattr("svc_sandbox.metadata.files", lambda _: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="pip install svc-cli"):
        Sandbox()
