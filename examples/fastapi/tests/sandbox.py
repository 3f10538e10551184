"""The sandbox, as tests need it. Copy this file."""

import json
import os
import subprocess

import httpx


class Sandbox:
    """A server of its own: in memory, on a free port, and ended with this process."""

    key = "mk_test_sandbox"

    def __init__(self) -> None:
        command = [os.environ.get("SVC", "svc"), "--quiet", "sandbox", "serve", "--addr", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            [*command, "--in-memory", "--until-stdin-closes"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        line = self.process.stdout.readline()
        assert line, "the sandbox did not start: see its error above"
        self.url = json.loads(line)["http"]
        self.http = httpx.Client(base_url=self.url, timeout=30)

    def __enter__(self) -> "Sandbox":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def call(self, method: str, path: str, **options):
        response = self.http.request(method, path, **options)
        assert response.is_success, f"{method} {path}: {response.text}"
        return response.json() if response.content else None

    def wait(self, to: str, subject: str = "", timeout: str = "5s") -> dict:
        """The first message that fits. The error of a wait says what arrived instead."""
        query = {"to": to, "subject": subject, "timeout": timeout}
        return self.call("GET", "/_sandbox/messages/wait", params=query)

    def subjects(self, to: str) -> list[str]:
        """What has arrived, the oldest first."""
        self.settle()
        messages = self.call("GET", "/_sandbox/messages", params={"to": to})["data"]
        return [message["subject"] for message in reversed(messages)]

    def settle(self) -> None:
        """Returns when all that is due has happened: mail, events and deliveries."""
        self.call("POST", "/_sandbox/settle", json={})

    def advance(self, duration: str) -> None:
        """Moves the clock, and returns when what fell due has happened."""
        self.call("POST", "/_sandbox/clock", json={"advance": duration})

    def fault(self, **fault) -> dict:
        return self.call("POST", "/_sandbox/faults", json=fault)

    def hits(self, fault: dict) -> int:
        return len(self.call("GET", f"/_sandbox/faults/{fault['id']}")["hits"])

    def webhook(self, url: str, events: list[str]) -> str:
        """Subscribes to events, and returns the signing secret."""
        webhook = self.call(
            "POST",
            "/api/v1/webhooks",
            json={"url": url, "events": events},
            headers={"authorization": f"Bearer {self.key}"},
        )
        return webhook["signingSecret"]

    def deliveries(self) -> list[dict]:
        self.settle()
        return self.call("GET", "/_sandbox/deliveries")["data"]
