"""A shop: the web server takes signups, the worker sends the welcome emails, and webhooks tell what
became of them. `python3 shop.py web` or `python3 shop.py worker`; both share a database."""

import hashlib
import hmac
import json
import os
import signal
import sqlite3
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import gaierror
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen


def database() -> sqlite3.Connection:
    db = sqlite3.connect(os.environ["DATABASE"], timeout=10)
    db.execute("CREATE TABLE IF NOT EXISTS signups (id INTEGER PRIMARY KEY, email TEXT, state TEXT)")
    return db


class Web(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        with database() as db:
            self.answer(200, dict(db.execute("SELECT email, state FROM signups ORDER BY id")))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/signup":
            with database() as db:
                db.execute("INSERT INTO signups (email, state) VALUES (?, 'queued')", [json.loads(body)["email"]])
            self.answer(202, {})
        elif self.path == "/hooks/email":
            self.hook(body)
        else:
            self.answer(404, {})

    def hook(self, body: bytes) -> None:
        """Verifies the bytes as they arrived, before they are parsed."""
        expected = hmac.new(os.environ["WEBHOOK_SECRET"].encode(), body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, self.headers.get("mail-signature", "")):
            self.answer(401, {})
            return
        delivery = json.loads(body)
        state = delivery["event"].removeprefix("email.")
        with database() as db:
            db.execute("UPDATE signups SET state = ? WHERE email = ?", [state, delivery["data"]["recipient"]])
        self.answer(200, {})

    def answer(self, status: int, body: dict) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def work() -> None:
    while True:
        with database() as db:
            queued = db.execute("SELECT id, email FROM signups WHERE state = 'queued' ORDER BY id").fetchone()
        if queued is None:
            time.sleep(0.2)
            continue
        id, email = queued
        # Recorded first: after a crash, nothing is sent a second time.
        change(id, "queued", "sending")
        state = send(email)
        # A webhook may have been faster.
        change(id, "sending", state)
        if state == "queued":
            time.sleep(1)


def change(id: int, old: str, new: str) -> None:
    with database() as db:
        db.execute("UPDATE signups SET state = ? WHERE id = ? AND state = ?", [new, id, old])


def send(email: str) -> str:
    """The new state of a signup: queued again only if the service certainly has not sent the email."""
    message = {"from": "hello@shop.test", "to": email, "subject": "Welcome", "text": "Hello!"}
    headers = {"authorization": f"Bearer {os.environ['EMAIL_KEY']}", "content-type": "application/json"}
    request = Request(os.environ["EMAIL_URL"] + "/api/v1/emails", json.dumps(message).encode(), headers)
    try:
        with urlopen(request, timeout=5):
            return "sent"
    except HTTPError as error:
        return "queued" if error.code == 429 else "unknown" if error.code >= 500 else "refused"
    except URLError as error:
        return "queued" if isinstance(error.reason, (ConnectionRefusedError, gaierror)) else "unknown"
    except OSError:
        return "unknown"


if __name__ == "__main__":
    # PID 1 of a container ignores signals that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if sys.argv[1] == "web":
        ThreadingHTTPServer(("", 3000), Web).serve_forever()
    else:
        work()
