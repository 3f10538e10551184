"""Messages of every charset, position, transfer encoding and structure, and what a reader shows of each.

The same on each run: nothing in it is random.
"""

import base64
import quopri

# A text for each charset. The labels are those that programs write, not only those that Python knows.
TEXTS = {
    "us-ascii": "Your code",
    "utf-8": "Grüße — 你好 🎉",
    "utf-7": "Grüße 你好",
    "iso-8859-1": "Grüße à Zoë",
    "iso-8859-2": "Zażółć gęślą jaźń",
    "iso-8859-3": "Ĉiuj ĵaŭde",
    "iso-8859-4": "Šķēršļi",
    "iso-8859-5": "Привет, мир",
    "iso-8859-6": "مرحبا",
    "iso-8859-7": "Καλημέρα",
    "iso-8859-8": "שלום",
    "iso-8859-10": "Þórður",
    "iso-8859-13": "Ačiū labai",
    "iso-8859-14": "Ŵyth",
    "iso-8859-15": "Prix 5 €",
    "iso-8859-16": "Știință",
    "koi8-r": "Привет, мир",
    "koi8-u": "Привіт, ґанок",
    "macintosh": "Grüße à Zoë",
    "x-mac-cyrillic": "Привет, мир",
    "windows-1250": "Zażółć gęślą jaźń",
    "windows-1251": "Привет, мир",
    "windows-1252": "“Prix” 5 €",
    "windows-1253": "Καλημέρα",
    "windows-1254": "Günaydın İzmir",
    "windows-1255": "שלום",
    "windows-1256": "مرحبا",
    "windows-1257": "Ačiū labai",
    "windows-1258": "Chào",
    "windows-874": "สวัสดี",
    "tis-620": "สวัสดี",
    "ibm866": "Привет, мир",
    "cp437": "naïve ½ café",
    "cp850": "Grüße à Zoë",
    "cp852": "Zażółć gęślą jaźń",
    "cp1125": "Привіт, ґанок",
    "gbk": "验证码是",
    "gb2312": "验证码是",
    "gb18030": "验证码是 🎉",
    "hz-gb-2312": "验证码是",
    "big5": "驗證碼是",
    "euc-jp": "確認コードは",
    "iso-2022-jp": "確認コードは",
    "shift_jis": "確認コードは",
    "cp932": "確認コード①",
    "euc-kr": "인증 코드는",
    "iso-2022-kr": "인증 코드는",
    "ks_c_5601-1987": "인증 코드는",
    "utf-16le": "Grüße 你好",
    "utf-16be": "Grüße 你好",
}
CODECS = {
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "windows-874": "cp874",
    "hz-gb-2312": "hz",
    "ks_c_5601-1987": "euc_kr",
}
# Their bytes have a meaning of their own in a header or in a line.
ONLY_ENCODED = {"utf-16le", "utf-16be", "utf-7", "hz-gb-2312", "iso-2022-jp", "iso-2022-kr"}


def encode(text, label):
    return text.encode(CODECS.get(label, label))


def word(label, data, kind):
    if kind == "B":
        return f"=?{label}?B?{base64.b64encode(data).decode()}?="
    return f"=?{label}?Q?{''.join(f'={byte:02X}' for byte in data)}?="


def words(text, label, kind, split):
    data = encode(text, label)
    if split == "whole":
        return word(label, data, kind)
    if split == "characters":
        return "\r\n ".join(word(label, encode(char, label), kind) for char in text)
    # A character may be split between two words.
    return " ".join(word(label, data[at:at + 3], kind) for at in range(0, len(data), 3))


def pieces(name, text, label):
    data = encode(text, label)
    parts = [data[at:at + 3] for at in range(0, len(data), 3)]
    parts = ["".join(f"%{byte:02X}" for byte in part) for part in parts]
    return "".join(
        f";\r\n {name}*{number}*={label + chr(39) * 2 if number == 0 else ''}{part}" for number, part in enumerate(parts)
    )


TRANSFERS = {
    "8bit": lambda data: data,
    "base64": base64.encodebytes,
    "base64, no padding": lambda data: base64.b64encode(data).rstrip(b"="),
    "base64, foreign characters": lambda data: b"\r\n!".join(base64.encodebytes(data).split(b"\n")),
    "base64, with a footer": lambda data: base64.encodebytes(data + b" " * (2 - len(data) % 3)) + b"\r\n-- \r\na list\r\n",
    "quoted-printable": quopri.encodestring,
    "quoted-printable, lower case": lambda data: "".join(f"={byte:02x}" for byte in data).encode(),
    "quoted-printable, broken lines": lambda data: b"=\r\n".join(f"={byte:02X}".encode() for byte in data) + b"=",
}


def part(kind, body, transfer="8bit", extra=""):
    head = f"Content-Type: {kind}\r\n{extra}Content-Transfer-Encoding: {transfer.split(',')[0]}\r\n\r\n"
    return head.encode() + TRANSFERS[transfer](body)


def multipart(subtype, parts, boundary="b", close=True):
    head = f'Content-Type: multipart/{subtype}; boundary="{boundary}"\r\n\r\n'.encode()
    body = b"".join(f"--{boundary}\r\n".encode() + one + b"\r\n" for one in parts)
    return head + b"a preamble\r\n" + body + (f"--{boundary}--\r\nan epilogue\r\n".encode() if close else b"")


def structures(text, html, file):
    """Each structure, and whether text and HTML, each marked, are shown and how many files there are."""
    image = part("image/png", b"\x89PNG", "base64")
    yield "text", text, 0
    yield "html", html, 0
    yield "alternative", multipart("alternative", [text, html]), 0
    yield "text and file", multipart("mixed", [text, file]), 1
    yield "file and text", multipart("mixed", [file, text]), 1
    yield "text, image, text", multipart("mixed", [text, image, text]), 1
    yield "html, file, html", multipart("mixed", [html, file, html]), 1
    yield "alternative with a footer", multipart("mixed", [multipart("alternative", [text, html], "bb"), text]), 0
    yield "text, then html", multipart("mixed", [text, html]), 0
    yield "two alternatives", multipart("mixed", [multipart("alternative", [text, html], f"b{n}") for n in (1, 2)]), 0
    yield "related", multipart("related", [html, image]), 1
    yield "related in alternative", multipart("alternative", [text, multipart("related", [html, image], "b-r")]), 1
    yield "mixed in alternative", multipart("alternative", [text, multipart("mixed", [html, file, html], "b-r")]), 1
    yield "nested mixed", multipart("mixed", [multipart("mixed", [text, file], "b.1"), text]), 1
    yield "not closed", multipart("mixed", [text, file], close=False), 1
    yield "inner not closed", multipart("mixed", [multipart("alternative", [text, html], "i", close=False), file]), 1
    yield "signed", multipart("signed", [text, part("application/pgp-signature", b"x")]), 1


def all_messages():
    """Each message as a dictionary: name, source, and what is expected of it."""
    for label, text in TEXTS.items():
        data = encode(text, label)
        for kind in "BQ":
            for split in ("whole", "characters", "bytes"):
                if split == "bytes" and label in ONLY_ENCODED - {"utf-16le", "utf-16be"}:
                    continue
                encoded = words(text, label, kind, split)
                head = f"From: {encoded} <ada@a.test>\r\nTo: \"{word(label, data, kind)}\" <bo@b.test>\r\nSubject: {encoded}\r\n"
                yield {
                    "name": f"words: {label}, {kind}, {split}",
                    "source": head.encode() + b"\r\nx\r\n",
                    "subject": text,
                    "from": (text, "ada@a.test"),
                    "to": (text, "bo@b.test"),
                    "text": ["x"],
                }
        for transfer in TRANSFERS:
            if transfer == "8bit" and label.startswith("utf-16"):
                continue
            content = "<p>" + text + "</p>"
            shown = part(f"text/plain; charset={label}", data, transfer)
            html = part(f"text/html; charset=\"{label}\"", encode(content, label), transfer)
            names = {
                "pieces": pieces("filename", text, label),
                "word": f'; filename="{word(label, data, "B")}"',
            }
            for naming, parameter in names.items():
                file = part(
                    f"text/csv; charset={label}", data, transfer, f"Content-Disposition: attachment{parameter}\r\n"
                )
                for structure, body, files in structures(shown, html, file):
                    # The second naming is tried with one structure of each kind.
                    if naming == "word" and structure not in ("text and file", "html, file, html"):
                        continue
                    head = b"From: ada@a.test\r\nTo: bo@b.test\r\nSubject: x\r\nMIME-Version: 1.0\r\n"
                    yield {
                        "name": f"{structure}: {label}, {transfer}, {naming}",
                        "source": head + body,
                        "subject": "x",
                        "shown": text,
                        "texts": body.count(b"Content-Type: text/plain"),
                        "htmls": body.count(b"Content-Type: text/html"),
                        "files": files,
                        "file": (text, data) if file in body else None,
                        "is_padded": transfer == "base64, with a footer",
                    }
