"""Compares what the sandbox reads of real messages, which packages of registries hold, with what Python's `email` and
nodemailer's `mailparser` read. Where it reads something that neither of them does, the message is in `REASONS`.

corpus.py SANDBOX_URL DIRECTORY_OF_MAILPARSER FOLDER…
"""

import pathlib
import re
import sys

from compare import Sandbox, read_with_mailparser, read_with_python

HEADER_CHARSET = "the others do not read bytes of the text's charset in a header"
TEXT_CHARSET = "mailparser does not know the charset of the text"
REASONS = {
    "subject": {
        HEADER_CHARSET: "data/sina_01.txt legacy/010.eml legacy/020.eml legacy/022.eml legacy/027.eml legacy/052.eml",
    },
    "from": {
        HEADER_CHARSET: "data/rfc6376.w1258.msg",
        "the address has a backslash and two @": "data/simple_35.txt",
    },
    "text": {
        TEXT_CHARSET: "data/qmail_08.txt data/rfc6376.w1258.msg legacy/001.eml legacy/005.eml legacy/034.eml "
        "legacy/052.eml",
        "the text is an attachment, in its own charset": "legacy/047.eml",
        "the attached message is shown with its time in another zone": "data/dsn_03.txt rfc/002.eml",
        "a line is both the end of one part and the boundary of another": "malformed/005.eml",
    },
    "files": {"the file is in an attached message": "rfc/002.eml"},
}


def sources(folders):
    for folder in folders:
        for path in sorted(pathlib.Path(folder).rglob("*")):
            if path.suffix in (".eml", ".message", ".msg", ".txt") and path.is_file():
                source = path.read_bytes()
                if re.match(rb"From |[A-Za-z-]+:", source):
                    source = source.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
                    yield {"name": f"{path.parent.name}/{path.name}", "source": source}


def words(text):
    return set(re.findall(r"\w+", text))


def attached(read):
    """Names and sizes of the files. Whether a text is one of them differs from program to program."""
    files = (file for file in read["files"] if not file[1].startswith(("text/", "message/")))
    return sorted(((name or "").replace("\\", ""), len(content.rstrip())) for name, _, content in files)


def differences(sandbox, python, mailparser):
    """What the sandbox reads as neither of the others does."""
    subjects = [" ".join(other["subject"].split()) for other in (python, mailparser)]
    if " ".join(sandbox["subject"].split()) not in subjects:
        yield "subject", sandbox["subject"]
    # A word alone is a name for one, and an address for the other.
    if mailparser["from"] and "".join(sandbox["from"]) != "".join(mailparser["from"]):
        yield "from", sandbox["from"]
    if attached(sandbox) not in (attached(python), attached(mailparser)):
        yield "files", attached(sandbox)
    # What others show of a report, or of a message within, is an attachment here.
    files = [content.decode(errors="replace") for _, _, content in sandbox["files"]]
    missing = words(mailparser["text"]) - words(" ".join([sandbox["text"], sandbox["html"], *files]))
    if missing:
        yield "text", sorted(missing)[:8]


def main(url, directory, *folders):
    messages = list(sources(folders))
    sandbox = Sandbox(url)
    unexplained = 0
    for message, mailparser in zip(messages, read_with_mailparser(messages, directory), strict=True):
        python = read_with_python(message["source"])
        for what, read in differences(sandbox.read(message["source"]), python, mailparser):
            reasons = [why for why, names in REASONS[what].items() if message["name"] in names.split()]
            print(f"{message['name']}: {what} {read!r}: {reasons[0] if reasons else 'NO REASON'}")
            unexplained += not reasons
    print(f"{len(messages)} real messages, {unexplained} differences without a reason")
    return unexplained > 0 or len(messages) < 200


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
