#!/usr/bin/env python3
"""selftest.py [N …]: start each style, drive all 25 operations over HTTP and assert what the documents say.
`selftest.py variants [N …]` does the same once for every variant by environment (see README.md)."""
import base64, hashlib, hmac, http.client, json, os, re, subprocess, sys, threading, time, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit
from core import ROUTES, XEVENTS

HERE = os.path.dirname(os.path.abspath(__file__))
FULL, SEND, NONE = "mk_full_0123456789abcdef", "mk_send_0123456789abcdef", "mk_none_0123456789abcdef"
XFULL, XEXTR = "sk_test_full0123456789abcdef", "sk_test_extr0123456789abcdef"
FLAGS = ["mx_verified", "spf_verified", "dkim_verified", "dmarc_verified", "verified"]
one = lambda x: [] if x in (None, "") else x if isinstance(x, list) else [x]


def head(name, form="%s"):
    return lambda key: {name: form % key}


# --- what each style chose: its key, where the resource and its id are, lists, batches
def res_plain(kind, j): return j
def res_wrapped(kind, j): return j[kind]
def items_google(kind, j): return j.get("webhooks" if kind == "xhook" else kind + "s") or []
def id_google(kind, r): return (r.get("name") if kind in ("email", "webhook") else r["resourceName"]).split("/")[-1]
def id_aws(kind, r): return r["MessageId" if kind == "email" else kind.capitalize() + "Id"]
def id_django(kind, r): return str(r.get("id", r.get("pk"))) if "id" in r or "pk" in r else r["url"].rstrip("/").split("/")[-1]
def items_soap(kind, j):
    b = j["Response"]["Body"]["WebhookEndpoints" if kind == "xhook" else kind.capitalize() + "s"] or {}
    return one(b.get("WebhookEndpoint" if kind == "xhook" else kind.capitalize()))
def batch_soap(j): return [r.get("EmailId") if r["ReturnCode"] == "0000" else None for r in one(j["Response"]["Body"]["Results"]["Result"])]
def batch_aws(j):
    d = {int(x["Id"]): x["MessageId"] for x in j["Successful"]}
    d.update({int(x["Id"]): None for x in j["Failed"]})
    return [d[i] for i in range(len(d))]
def batch_google(j):
    ids, bad = [id_google("email", e) for e in j["emails"]], j.get("failedRequests", {})
    return [None if str(i) in bad else ids.pop(0) for i in range(len(ids) + len(bad))]


def style(auth, res=res_plain, id=lambda kind, r: str(r["id"]), items=lambda kind, j: j["data"], body=lambda l: l, results=None, partial=True, status="status"):
    return dict(locals())


STYLES = {
    1: style(head("Authorization", "Bearer %s"), results=lambda j: [x["id"] for x in j["data"]], partial=False, status="last_event"),
    2: style(lambda key: {"Authorization": "Basic " + base64.b64encode(b"api:" + key.encode()).decode()}, res=lambda kind, j: j["data"], body=lambda l: {"data": l},
             results=lambda j: [x["data"]["id"] if "data" in x else None for x in j["results"]]),
    3: style(head("X-Goog-Api-Key"), id=id_google, items=items_google, body=lambda l: {"requests": [{"email": e} for e in l]}, results=batch_google, partial=False, status="state"),
    4: style(head("Authorization", "Token %s"), res=res_wrapped, body=lambda l: {"emails": l}, results=lambda j: [str(x["id"]) for x in j["emails"]], partial=False),
    5: style(head("X-Api-Key"), id=id_aws, items=lambda kind, j: j["Items"], body=lambda l: {"Entries": l}, results=batch_aws),
    6: style(head("Authorization"), res=lambda kind, j: j.get("domain", j), items=lambda kind, j: (j if kind in ("webhook", "xhook") else j[kind + "s"]) or [], results=lambda j: [x["id"] or None for x in j]),
    7: style(head("Authorization", "Token %s"), id=id_django, items=lambda kind, j: j if isinstance(j, list) else j["results"], results=lambda j: [id_django("email", x) if x["success"] else None for x in j]),
    8: style(head("X-Auth-Token"), res=lambda kind, j: j["Response"]["Body"][kind.capitalize()], id=lambda kind, r: r[kind.capitalize() + "Id"], items=items_soap, body=lambda l: {"emails": l}, results=batch_soap),
}
VARIANTS = {
    1: ["PAST=404", "PAGE_MAX=50"], 4: ["PAST=404"], 6: ["PAST=404"],
    2: ["MEMBERS=dash", "LINKS=full", "LINKS=object", "LISTS=paged", "CTYPE=json", "BATCH_STATUS=200", "CANCEL=meta", "CANCEL=204", "IDEM=1", "DUP=upsert", "CREATED=200", "SCHEDULED=scheduled", "PAST=404"],
    3: ["IDS=both", "EMPTY=list", "DEFAULTS=omit", "STATE_FIELD=status", "PARTIAL=1", "CANCEL=empty", "KEY_ERRORS=google", "UNKNOWN=ignore", "RETRY_AFTER=1", "LENGTH=lax", "PAST=404"],
    5: ["CASE=pascal", "NEXT=null", "THROTTLE=400", "GATEWAY=1", "TYPE=coral", "BODY=bare", "STATUS=upper", "CTYPE=amz", "DELIVERY=sns", "CANCEL=full", "PAST=404"],
    7: ["PAST=empty", "LISTS=plain", "LINKS=internal", "ID=pk", "ID=uuid", "ID=url", "BATCH_STATUS=207", "CANCEL=204", "CANCEL=full", "AUTH=403", "WAIT=2"],
    8: ["CASE=pascal", "COLLAPSE=no", "EMPTY=string", "FAULT=wrapped", "OK=body", "OPTOUT=both", "STATUS=lower", "CHARSET=latin1", "BOM=1", "LISTS=paged", "CANCEL=full", "PAST=404"],
}


def plain(k):
    return re.sub("[-_]", "", k).lower()


def find(j, key):
    """Every value under that key, however deep and whatever its case."""
    if isinstance(j, dict):
        return [v for k, v in j.items() if plain(k) == plain(key)] + [x for v in j.values() for x in find(v, key)]
    return [x for v in j for x in find(v, key)] if isinstance(j, list) else []


class Receiver(BaseHTTPRequestHandler):
    """Notes every delivery; /fail answers 500 once; /code/NNN answers NNN."""
    got, failed = [], set()

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        Receiver.got.append((self.path, raw, dict(self.headers.items())))
        code = int(self.path.split("/")[2]) if self.path.startswith("/code/") else 200
        if self.path.startswith("/fail") and self.path not in Receiver.failed:
            Receiver.failed.add(self.path)
            code = 500
        self.send_response(code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *a):
        pass


class Peer:
    def __init__(self, n, env):
        self.n, self.s = n, STYLES[n]
        self.p = subprocess.Popen([sys.executable, os.path.join(HERE, "run.py"), str(n), "0"], stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
        self.url = self.p.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", self.url), self.url
        self.ops, self.last = set(), None

    def http(self, method, path, headers, body=None):
        c = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=20)
        raw = None if body is None else body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        h = dict(headers, **({"Content-Type": "application/json"} if raw is not None else {}))
        c.request(method, path, raw if raw is not None or method == "GET" else b"", h)
        r = c.getresponse()
        b = r.read()
        c.close()
        charset = "latin-1" if "8859-1" in r.headers.get("Content-Type", "") else "utf-8-sig"
        try:
            j = json.loads(b.decode(charset)) if b else None
        except ValueError:
            j = None
        self.last = "%s %s -> %d %s" % (method, path, r.status, b.decode(charset)[:400])
        return r.status, j, r.headers, b

    def __call__(self, method, path, body=None, key=FULL):
        """An operation of the e-mail service."""
        for m, rx, op, _ in ROUTES:
            if m == method and rx.match(path.split("?")[0]):
                self.ops.add(op)
        return self.http(method, path, self.s["auth"](key) if key else {}, body)

    def x(self, method, path, body=None, key=XFULL):
        """An operation of the extraction service."""
        for m, rx, op, _ in ROUTES:
            if m == method and rx.match(path):
                self.ops.add(op)
        return self.http(method, path, {"Authorization": "Bearer " + key} if key else {}, body)

    def ok(self, *a, **k):
        s, j, _, _ = self(*a, **k)
        assert 200 <= s < 300, self.last
        return j

    def refused(self, *a, **k):
        s = self(*a, **k)[0]
        assert 400 <= s < 500, self.last

    def gone(self, path):
        s, _, _, b = self("DELETE", path)
        assert s == 204 and b == b"", self.last

    def ctl(self, what):
        return self.http("GET", "/_ctl/" + what, {})[1]

    def id(self, kind, j): return self.s["id"](kind, self.s["res"](kind, j))
    def ids(self, kind, j): return [str(x["id"]) if kind == "xhook" else self.s["id"](kind, x) for x in self.s["items"](kind, j)]


def wait(what, seconds=6):
    end = time.time() + seconds
    while time.time() < end:
        x = what()
        if x:
            return x
        time.sleep(.05)
    raise AssertionError("waited in vain")


def has(p, j, **fields):
    for k, v in fields.items():
        assert v in find(j, k), (k, v, p.last)


def signed(p, path, secret, header, form="%s"):
    """Every delivery to that path bears the HMAC over its raw bytes."""
    l = [(raw, h) for q, raw, h in Receiver.got if q == path]
    for raw, h in l:
        mac = form % hmac.new(secret.encode(), raw, hashlib.sha256).hexdigest()
        assert {k.lower(): v for k, v in h.items()}.get(header.lower()) == mac, (path, h)
        json.loads(raw)
    return l


def extraction(p, hook):
    s, j, _, _ = p.x("GET", "/v1/me")
    assert s == 200 and set(j) >= {"organization", "auth"}, p.last
    assert set(j["organization"]) >= {"id", "name", "balance_cents"} and isinstance(j["organization"]["balance_cents"], int) and j["organization"]["name"].endswith("Söhne"), p.last
    assert j["auth"]["method"] == "api_key" and j["auth"]["scope"] == "full" and isinstance(j["auth"]["key_id"], str), p.last
    assert p.x("GET", "/v1/me", key=XEXTR)[1]["auth"]["scope"] == "extract_only"
    for key in (None, "sk_test_wrong", "malformed", FULL):
        s, j, _, _ = p.x("GET", "/v1/me", key=key)
        assert s == 401 and j["error"]["code"] == "unauthorized" and isinstance(j["error"]["message"], str), p.last
    for m, path, b in (("POST", "/v1/webhooks", {"url": hook, "events": XEVENTS}), ("GET", "/v1/webhooks", None), ("DELETE", "/v1/webhooks/1", None)):
        s = p.x(m, path, b, XEXTR)[0]
        assert 400 <= s < 500, p.last
    path = "/fail/x" + uuid.uuid4().hex
    s, w, _, _ = p.x("POST", "/v1/webhooks", {"url": hook + path, "events": XEVENTS})
    assert 200 <= s < 300 and set(w) >= {"id", "url", "secret", "events", "status"}, p.last
    assert isinstance(w["id"], str) and w["url"] == hook + path and w["events"] == XEVENTS and w["status"] == "active", p.last
    s, j, _, _ = p.x("GET", "/v1/webhooks")
    assert s == 200 and p.ids("xhook", j) == [w["id"]] and not find(j, "secret"), p.last
    has(p, j, url=hook + path, events=XEVENTS, status="active")
    for ev in XEVENTS:
        p.ctl("fire?event=" + ev)
    wait(lambda: len([1 for q, _, _ in Receiver.got if q == path]) >= 3)           # the first was refused and is delivered again
    for raw, h in signed(p, path, w["secret"], "X-Service-Signature", "sha256=%s"):
        b = json.loads(raw)
        assert b["event"] == h["X-Service-Event"] and uuid.UUID(b["id"]) and isinstance(b["data"], dict) and re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z$", b["created"]), raw
        assert b["event"] != "extraction.failed" or "error" in b["data"], raw
    s = p.x("DELETE", "/v1/webhooks/" + w["id"])[0]
    assert 200 <= s < 300, p.last
    assert p.ids("xhook", p.x("GET", "/v1/webhooks")[1]) == [], p.last
    p.ctl("revoke?key=" + XEXTR)
    s, j, _, _ = p.x("GET", "/v1/me", key=XEXTR)
    assert s == 401 and j["error"]["code"] == "unauthorized", p.last


def keys(p):
    for key in (None, "mk_wrong"):
        p.refused("GET", "/api/v1/audiences", key=key)
    p.refused("GET", "/api/v1/audiences", key=SEND)
    p.refused("POST", "/api/v1/emails", {"from": "a@example.com", "to": "b@example.net", "subject": "s"}, key=NONE)
    p.refused("GET", "/api/v1/nothing")
    p.refused("POST", "/api/v1/audiences", b"{nonsense")


def contacts(p):
    assert p.ids("audience", p.ok("GET", "/api/v1/audiences")) == []
    j = p.ok("POST", "/api/v1/audiences", {"name": "Käufer"})
    a = p.id("audience", j)
    has(p, p.ok("GET", "/api/v1/audiences/" + a), name="Käufer")
    assert p.ids("audience", p.ok("GET", "/api/v1/audiences")) == [a], p.last
    p.refused("POST", "/api/v1/audiences", {})
    at = "/api/v1/audiences/%s/contacts" % a
    ids = []
    for i in range(3):
        j = p.ok("POST", at, {"email": "c%d@example.net" % i, "name": "C%d" % i, "metadata": {"n": i, "k": "v"}, "topics": ["news", "sale"]})
        ids.append(p.id("contact", j))
    p.refused("POST", at, {"name": "nobody"})
    assert p.ids("contact", p.ok("GET", at)) == ids, p.last
    has(p, p.ok("GET", at + "?page=1&pageSize=50"), email="c2@example.net", name="C2", topics=["news", "sale"], metadata={"n": 2, "k": "v"})
    assert p.ids("contact", p.ok("GET", at + "?page=1&pageSize=2")) == ids[:2], p.last
    assert p.ids("contact", p.ok("GET", at + "?page=2&pageSize=2")) == ids[2:], p.last
    s, j, _, _ = p("GET", at + "?page=3&pageSize=2")
    assert s == 404 or s == 200 and p.ids("contact", j) == [], p.last
    p.ok("PATCH", "/api/v1/contacts/" + ids[0], {"name": "New", "metadata": {"k": "w"}, "subscribed": False})
    c = [c for c in p.ctl("contacts") if c["id"] == ids[0]][0]
    assert c["metadata"] == {"n": 0, "k": "w"} and c["name"] == "New" and c["subscribed"] is False and c["email"] == "c0@example.net"
    has(p, p.ok("GET", at), name="New", metadata={"n": 0, "k": "w"})
    p.gone("/api/v1/contacts/" + ids[1])
    assert p.ids("contact", p.ok("GET", at)) == [ids[0], ids[2]], p.last
    p.gone("/api/v1/audiences/" + a)
    p.refused("GET", "/api/v1/audiences/" + a)
    p.refused("DELETE", "/api/v1/audiences/" + a)


def webhooks(p, hook):
    path = "/code/202/" + uuid.uuid4().hex
    j = p.ok("POST", "/api/v1/webhooks", {"url": hook + path, "events": ["email.sent", "email.delivered"]})
    w, secret = p.id("webhook", j), find(j, "signingSecret")[0]
    j = p.ok("GET", "/api/v1/webhooks")
    assert p.ids("webhook", j) == [w] and not find(j, "signingSecret"), p.last
    has(p, j, url=hook + path, events=["email.sent", "email.delivered"], active=True)
    p.refused("POST", "/api/v1/webhooks", {"url": hook})
    p.refused("POST", "/api/v1/webhooks", {"url": "http://elsewhere.test/", "events": ["email.sent"]})
    j = p.ok("POST", "/api/v1/webhooks/%s/test" % w)
    assert "202" in re.findall(r"\d+", json.dumps(j)), p.last
    assert len(signed(p, path, secret, "Mail-Signature")) == 1
    p.ok("PATCH", "/api/v1/webhooks/" + w, {"active": False})
    assert False in find(p.ok("GET", "/api/v1/webhooks"), "active") or "DEFAULTS=omit" in p.env, p.last
    send(p, "quiet@example.net")
    time.sleep(1.6)
    assert len(signed(p, path, secret, "Mail-Signature")) == 1                     # not active: nothing came
    p.ok("PATCH", "/api/v1/webhooks/" + w, {"active": True, "events": ["email.delivered", "email.bounced"]})
    send(p, "seen@example.net")
    send(p, "bounce@example.net")
    wait(lambda: len(signed(p, path, secret, "Mail-Signature")) >= 3)
    bodies = b"".join(raw for raw, _ in signed(p, path, secret, "Mail-Signature")).replace(b"\\/", b"/")
    assert b"email.delivered" in bodies and b"email.bounced" in bodies
    path2 = "/fail/" + uuid.uuid4().hex
    j = p.ok("POST", "/api/v1/webhooks", {"url": hook + path2, "events": ["email.opened"]})
    p.ctl("fire?event=email.opened")
    wait(lambda: len(signed(p, path2, find(j, "signingSecret")[0], "Mail-Signature")) == 2)   # refused once, delivered again
    p.gone("/api/v1/webhooks/" + w)
    assert p.ids("webhook", p.ok("GET", "/api/v1/webhooks")) == [p.id("webhook", j)], p.last


def send(p, to, **more):
    j = p.ok("POST", "/api/v1/emails", {"from": "Ä <a@example.com>", "to": to, "subject": "Grüße", "text": "x", **more})
    return p.id("email", j)


def state(p, id):
    j = p.ok("GET", "/api/v1/emails/" + id)
    return str([v for v in find(j, p.status)][0]).lower()


def domains(p):
    assert len(p.ids("domain", p.ok("GET", "/api/v1/domains"))) == 1               # example.com
    j = p.ok("POST", "/api/v1/domains", {"name": "shop.test"})
    d = p.id("domain", j)
    for word in ("mx", "mail.test", "v=spf1", "_domainkey", "_dmarc", "v=dmarc1"):
        assert word in json.dumps(j).lower(), (word, p.last)
    has(p, p.ok("GET", "/api/v1/domains"), name="shop.test")
    n = len(p.ctl("emails"))
    m = {"from": "a@shop.test", "to": "b@example.net", "subject": "s"}
    p.refused("POST", "/api/v1/emails", m)
    assert len(p.ctl("emails")) == n
    has(p, p.ok("POST", "/api/v1/domains/%s/verify" % d), mx_verified=True, dkim_verified=False, verified=False)
    has(p, p.ok("POST", "/api/v1/domains/%s/verify" % d), **{k: True for k in FLAGS})
    p.ok("POST", "/api/v1/emails", m)
    j = p.ok("DELETE", "/api/v1/domains/" + d)
    has(p, j, ok=True)
    assert "OK=body" in p.env or j["ok"] is True, p.last
    assert len(p.ids("domain", p.ok("GET", "/api/v1/domains"))) == 1
    p.refused("POST", "/api/v1/domains/%s/verify" % d)


def emails(p):
    a = send(p, ["b@example.net", "c@example.net"], html="<p>ß", cc="d@example.net", bcc=["e@example.net"], replyTo="r@example.com", headers={"X-A": "b"}, tags={"k": "v"}, templateId="t1", variables={"n": 1},
             attachments=[{"filename": "a.txt", "content": base64.b64encode(b"hi").decode(), "contentType": "text/plain"}])
    b, f, c = send(p, "bounce@example.net"), send(p, "fail@example.net"), send(p, "complain@example.net")
    e = [e for e in p.ctl("emails") if e["id"] == a][0]
    assert e["to"] == ["b@example.net", "c@example.net"] and e["req"]["subject"] == "Grüße" and e["req"]["variables"] == {"n": 1}
    later = send(p, "b@example.net", scheduledAt=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600)))
    assert state(p, later) in ("queued", "scheduled", "accepted"), p.last
    s = p("PATCH", "/api/v1/emails/%s/cancel" % later)[0]
    assert 200 <= s < 300, p.last
    assert state(p, later) in ("cancelled", "canceled"), p.last
    p.refused("PATCH", "/api/v1/emails/%s/cancel" % later)
    for id, end in ((a, "delivered"), (b, "bounced"), (f, "failed"), (c, "complained")):
        wait(lambda: state(p, id) == end)
    p.refused("PATCH", "/api/v1/emails/%s/cancel" % a)
    p.refused("GET", "/api/v1/emails/12345")
    ok = {"from": "a@example.com", "to": "b@example.net", "subject": "s"}
    n = len(p.ctl("emails"))
    for wrong in ({"to": ["b%d@example.net" % i for i in range(51)]}, {"subject": "x" * 999}, {"attachments": [{"filename": "a", "content": "aGk="}] * 21}, {"from": None}, {"subject": ""}):
        p.refused("POST", "/api/v1/emails", {**ok, **wrong})
    batch = lambda l: p("POST", "/api/v1/emails/batch", p.s["body"](l))
    for l in ([], [ok] * 101):
        assert 400 <= batch(l)[0] < 500, p.last
    assert len(p.ctl("emails")) == n
    p.ok("POST", "/api/v1/emails", {**ok, "to": ["b%d@example.net" % i for i in range(50)], "subject": "x" * 998})
    n += 1
    for l, good in (([ok], [1]), ([ok] * 100, [1] * 100), ([ok, {**ok, "from": "a@nowhere.test"}, {"from": "a@example.com", "to": "b@example.net"}, ok], [1, 0, 0, 1]), ([{**ok, "to": "nobody"}], [0])):
        s, j, _, _ = batch(l)
        if all(good) or p.s["partial"] or "PARTIAL=1" in p.env:
            assert 200 <= s < 300, p.last
            r = p.s["results"](j)
            assert [bool(x) for x in r] == [bool(x) for x in good], p.last
            n += sum(good)
            assert {x for x in r if x} <= {e["id"] for e in p.ctl("emails")}, p.last
        else:
            assert 400 <= s < 500, p.last
        assert len(p.ctl("emails")) == n, p.last


def faults(p):
    a = lambda: p("POST", "/api/v1/audiences", {"name": "f"})
    p.ctl("fault?kind=429&method=POST&path=audiences$")
    s, _, h, _ = a()
    assert s == (400 if "THROTTLE=400" in p.env else 429), p.last
    p.ctl("fault?kind=502&method=POST&path=audiences$")
    assert a()[0] == 502
    n = p.ctl("state")["audiences"]
    p.ctl("fault?kind=accept503&method=POST&path=audiences$")
    assert a()[0] == 503 and p.ctl("state")["audiences"] == n + 1
    p.ctl("fault?kind=drop&method=POST&path=audiences$")
    try:
        a()
        raise AssertionError("not dropped")
    except (http.client.HTTPException, OSError):
        assert p.ctl("state")["audiences"] == n + 2
    p.ctl("rate?n=2")
    assert (400 if "THROTTLE=400" in p.env else 429) in [a()[0] for _ in range(4)]
    p.ctl("rate?n=0")
    p.ctl("reset")
    assert p.ctl("state") == {"emails": 0, "audiences": 0, "contacts": 0, "domains": 1, "webhooks": 0, "xhooks": 0}


def drive(n, hook, *env):
    p = Peer(n, dict(e.split("=", 1) for e in env))
    p.env, p.status = env, "status" if "STATE_FIELD=status" in env else STYLES[n]["status"]
    try:
        extraction(p, hook); keys(p); contacts(p); domains(p); emails(p); webhooks(p, hook)
        missing = {r[2] for r in ROUTES} - p.ops
        assert not missing and len(p.ops) == 25, missing
        faults(p)
        print("style %d %s: 25 operations ok" % (n, " ".join(env)), flush=True)
        return True
    except Exception as e:
        import traceback
        traceback.print_exc()
        print("style %d %s: FAILED %r\n  last: %s" % (n, " ".join(env), e, p.last), flush=True)
        return False
    finally:
        p.p.terminate()
        p.p.wait()


def main(args):
    r = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=r.serve_forever, daemon=True).start()
    hook = "http://127.0.0.1:%d" % r.server_port
    variants = "variants" in args
    ns = [int(a) for a in args if a.isdigit()] or sorted(STYLES)
    bad = [(n, v) for n in ns for v in (VARIANTS[n] if variants else [None]) if not drive(n, hook, *([v] if v else []))]
    print("all pass" if not bad else "failed: %s" % bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
