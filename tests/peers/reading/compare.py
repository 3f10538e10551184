"""Compares what the sandbox reads of generated messages with what was written, with Python's `email` and with
nodemailer's `mailparser`. A difference of these two from what was written is counted, and must be in `REASONS`.

compare.py SANDBOX_URL DIRECTORY_OF_MAILPARSER
"""

import base64
import collections
import email
import email.policy
import http.client
import json
import pathlib
import subprocess
import sys
import tempfile
from email.utils import parseaddr
from urllib.parse import urlsplit

from messages import all_messages

# Where the sandbox reads what was written, and the others do not.
REASONS = {
    ("email", "subject"): "has no charset of this label, or no character that is split between words",
    ("email", "file name"): "has no charset of this label, or none of the words in a file name",
    ("email", "bytes"): "stops at the first padding of Base64, or reads a footer as content",
    ("mailparser", "subject"): "has no charset of this label, or no character that is split between words",
    ("mailparser", "from"): "has no charset of this label, or no character that is split between words",
    ("mailparser", "file name"): "has no charset of this label",
    ("mailparser", "bytes"): "reads a footer after Base64 as content",
    ("mailparser", "text"): "has no charset of this label, or reads a footer after Base64 as content",
    ("mailparser", "html"): "has no charset of this label, or reads a footer after Base64 as content",
}


def same_bytes(message, content):
    """The generated footer needs padding, so its content may have spaces; and Base64 of lines ends with one."""
    end = b" \r\n" if message["is_padded"] else b"\r\n"
    return content.rstrip(end) == message["file"][1].rstrip(b"\r\n")


def differences(message, read):
    """What a reader reads differently."""
    if read["subject"] != message["subject"]:
        yield "subject"
    if "from" in message:
        if read["from"] is not None and read["from"] != message["from"]:
            yield "from"
        return
    if read["text"] is not None and read["text"].count(message["shown"]) < message["texts"]:
        yield "text"
    if read["html"] is not None and read["html"].count(message["shown"]) < message["htmls"]:
        yield "html"
    if len(read["files"]) != message["files"]:
        yield "files"
        return
    if message["file"]:
        for name, kind, content in read["files"]:
            if kind == "text/csv" and name != message["file"][0]:
                yield "file name"
            if kind == "text/csv" and not same_bytes(message, content):
                yield "bytes"


class Sandbox:
    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def call(self, method, path, body=None):
        headers = {"content-type": "message/rfc822"} if body else {}
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        content = response.read()
        assert response.status < 300, f"{method} {path}: {response.status} {content!r}"
        return content

    def read(self, source):
        received = json.loads(self.call("POST", "/_sandbox/inbound?to=bo@sandbox.test", source))
        path = f"/_sandbox/messages/{received['messages'][0]['id']}"
        shown = json.loads(self.call("GET", path))
        files = [
            (one["filename"], one["contentType"], self.call("GET", f"{path}/attachments/{number}"))
            for number, one in enumerate(shown["attachments"], 1)
        ]
        assert [one["size"] for one in shown["attachments"]] == [len(content) for _, _, content in files]
        return {
            "subject": shown["subject"],
            "from": parseaddr(shown["from"]),
            "text": shown["text"] or "",
            "html": shown["html"] or "",
            "files": files,
        }


def read_with_python(source):
    parsed = email.message_from_bytes(source, policy=email.policy.default)
    leaves = [part for part in parsed.walk() if not part.is_multipart()]
    files = [part for part in leaves if part.get_content_type() not in ("text/plain", "text/html")]

    def name(part):
        try:
            return part.get_filename()
        except (LookupError, ValueError):
            return "unreadable"

    return {
        "subject": str(parsed["subject"]),
        "from": None,
        # Python leaves the choice of what is shown to its users.
        "text": None,
        "html": None,
        "files": [(name(part), part.get_content_type(), part.get_payload(decode=True)) for part in files],
    }


def read_with_mailparser(messages, directory):
    with tempfile.TemporaryDirectory() as folder:
        for number, message in enumerate(messages):
            pathlib.Path(folder, f"{number}.eml").write_bytes(message["source"])
        script = pathlib.Path(__file__).with_name("mailparser.js")
        command = ["node", str(script), directory, folder]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        read = json.loads(line)
        read["from"] = read["from"] and tuple(read["from"])
        read["files"] = [(name, kind, base64.b64decode(content)) for name, kind, content in read["files"]]
        yield read


def main(url, directory):
    messages = list(all_messages())
    sandbox = Sandbox(url)
    found = collections.defaultdict(list)
    others = zip(messages, read_with_mailparser(messages, directory), strict=True)
    for message, of_mailparser in others:
        readers = {
            "sandbox": sandbox.read(message["source"]),
            "email": read_with_python(message["source"]),
            "mailparser": of_mailparser,
        }
        for reader, read in readers.items():
            for what in differences(message, read):
                found[reader, what].append(message["name"])
    print(f"{len(messages)} messages")
    for (reader, what), names in sorted(found.items()):
        reason = REASONS.get((reader, what), "NO REASON")
        print(f"{reader} reads {what} of {len(names)} differently, such as {names[0]}: {reason}")
    return any(key not in REASONS for key in found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
