"""What all eight servers share: HTTP plumbing, an in-memory store, mail life cycle, webhook deliveries.
Nothing in here decides how an answer looks: that is each style's own file."""
import base64, gzip, hashlib, hmac, http.client, itertools, json, os, re, secrets, socket, threading, time, traceback, uuid
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

EVENTS = ["sent", "delivered", "bounced", "opened", "clicked", "complained", "failed", "received"]
EVENTS = ["email." + e for e in EVENTS]
XEVENTS = ["extraction.completed", "extraction.failed"]
ALL = {"emails:send", "emails:read", "contacts:manage", "domains:manage", "webhooks:manage"}
# one key per set of scopes; "full" has all; "revoked" none
KEYS = {"mk_full_0123456789abcdef": ALL, "mk_send_0123456789abcdef": {"emails:send"},
        "mk_read_0123456789abcdef": {"emails:read"}, "mk_contacts_0123456789abc": {"contacts:manage"},
        "mk_none_0123456789abcdef": set()}
XKEYS = {"sk_test_full0123456789abcdef": "full", "sk_test_extr0123456789abcdef": "extract_only"}

ROUTES = [  # method, path, op, scope
    ("POST", "/api/v1/emails", "email_send", "emails:send"),
    ("POST", "/api/v1/emails/batch", "email_batch", "emails:send"),
    ("GET", "/api/v1/emails/:id", "email_get", "emails:read"),
    ("PATCH", "/api/v1/emails/:id/cancel", "email_cancel", "CANCEL"),
    ("POST", "/api/v1/audiences", "audience_create", "contacts:manage"),
    ("GET", "/api/v1/audiences", "audience_list", "contacts:manage"),
    ("GET", "/api/v1/audiences/:id", "audience_get", "contacts:manage"),
    ("DELETE", "/api/v1/audiences/:id", "audience_delete", "contacts:manage"),
    ("POST", "/api/v1/audiences/:id/contacts", "contact_create", "contacts:manage"),
    ("GET", "/api/v1/audiences/:id/contacts", "contact_list", "contacts:manage"),
    ("PATCH", "/api/v1/contacts/:id", "contact_update", "contacts:manage"),
    ("DELETE", "/api/v1/contacts/:id", "contact_delete", "contacts:manage"),
    ("GET", "/api/v1/domains", "domain_list", "domains:manage"),
    ("POST", "/api/v1/domains", "domain_create", "domains:manage"),
    ("POST", "/api/v1/domains/:id/verify", "domain_verify", "domains:manage"),
    ("DELETE", "/api/v1/domains/:id", "domain_delete", "domains:manage"),
    ("POST", "/api/v1/webhooks", "webhook_create", "webhooks:manage"),
    ("GET", "/api/v1/webhooks", "webhook_list", "webhooks:manage"),
    ("PATCH", "/api/v1/webhooks/:id", "webhook_update", "webhooks:manage"),
    ("DELETE", "/api/v1/webhooks/:id", "webhook_delete", "webhooks:manage"),
    ("POST", "/api/v1/webhooks/:id/test", "webhook_test", "webhooks:manage"),
    ("GET", "/v1/me", "me", "X"), ("POST", "/v1/webhooks", "xhook_create", "Xfull"),
    ("GET", "/v1/webhooks", "xhook_list", "Xfull"), ("DELETE", "/v1/webhooks/:id", "xhook_delete", "Xfull"),
]
ROUTES = [(m, re.compile("^" + re.sub(r":\w+", r"([^/]+)", p) + "$"), op, sc) for m, p, op, sc in ROUTES]


def now():
    return time.time()


def iso(t, frac=True):
    return datetime.fromtimestamp(t, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + (".%03dZ" % (t % 1 * 1000) if frac else "Z")


class R:  # a response
    def __init__(self, status, body=None, headers=None, ctype="application/json"):
        self.status, self.body, self.headers, self.ctype = status, body, dict(headers or {}), ctype


class Bad(Exception):
    """A refused request: list of (field, code, message)."""
    def __init__(self, *errs):
        self.errs = list(errs)


class Style:
    """Base of them all: semantics. Subclasses answer."""
    name = "base"
    accept_wait = False
    strict = False          # unknown members refused
    no_null = False         # explicit nulls refused
    idem = False            # Idempotency-Key honoured
    cancel_scope = "emails:send"
    scheduled_status = "queued"
    cancelled_status = "cancelled"
    rate = 0                # requests per second and key; 0 = none
    dup_contact = "refuse"  # or "upsert"
    seq_ids = False
    xdoc = False            # every error of the extraction service has the documented shape {error: {code, message}}
    typed = False           # wrong JSON types of members are refused
    page_size = page_most = 100
    page_clamp = True       # a pageSize beyond the largest is cut (otherwise refused)
    prefix = dict(email="", audience="", contact="", domain="", webhook="", xhook="")

    def __init__(self):
        self.lock = threading.RLock()
        self.ids = itertools.count(1001)
        self.reset()

    def reset(self):
        self.emails, self.audiences, self.contacts, self.domains, self.webhooks, self.xhooks = {}, {}, {}, {}, {}, {}
        self.log, self.deliveries, self.faults, self.replay, self.hits = [], [], [], {}, {}
        self.revoked = set()    # keys revoked through /_ctl/revoke
        d = dict(id=self.new_id("domain"), name="example.com", checks=9, created=now() - 86400)
        self.domains[d["id"]] = d

    def new_id(self, kind):
        return str(next(self.ids)) if self.seq_ids else self.prefix[kind] + (secrets.token_hex(8) if self.prefix[kind] else str(uuid.uuid4()))

    # --- authentication: subclasses say where the e-mail key sits
    def mail_key(self, h, q):
        a = h.get("Authorization", "")
        return a[7:] if a.startswith("Bearer ") else None

    # --- the dispatcher
    def handle(self, req):
        m = [(r, x) for r in ROUTES for x in [r[1].match(req.path)] if x]
        hit = [(r, x) for r, x in m if r[0] == req.method]
        x = req.path.startswith("/v1/")
        if not m:
            return self.xerror(404, "not_found", "No such path.") if x and self.xdoc else self.no_route(req)
        if not hit:
            return self.xerror(405, "method_not_allowed", "Method not allowed.") if x and self.xdoc else self.no_method(req)
        (_, _, op, scope), mt = hit[0]
        req.op, req.args = op, mt.groups()
        key = req.headers.get("Authorization", "")[7:] if x else self.mail_key(req.headers, req.query)
        if x and (not req.headers.get("Authorization", "").startswith("Bearer ") or key not in XKEYS or key in self.revoked):
            return R(401, {"error": {"code": "unauthorized", "message": "The API key is missing, revoked or malformed."}})
        if not x and (key not in KEYS or key in self.revoked):
            return self.unauthorized(req, key)
        req.key = key
        if self.rate:
            with self.lock:
                hits = [t for t in self.hits.get(key, []) if t > now() - 1]
                self.hits[key] = hits
                if len(hits) >= self.rate:
                    return self.throttled(req, 1 - (now() - hits[0]))
                hits.append(now())
                req.remaining = self.rate - len(hits)
        if scope == "Xfull" and XKEYS[key] != "full":
            return self.xforbidden(req)
        if not x:
            need = self.cancel_scope if scope == "CANCEL" else scope
            if need not in KEYS[key]:
                return self.forbidden(req, need)
        if req.method in ("POST", "PATCH") and req.raw:
            if "json" not in req.headers.get("Content-Type", ""):
                return self.xerror(415, "unsupported_media_type", "The body must be application/json.") if x and self.xdoc else self.bad_type(req)
            try:
                req.json = json.loads(req.raw)
            except ValueError as e:
                return self.refused(req, [("", "json", "The body is not JSON: %s" % e)])
        ik = req.headers.get("Idempotency-Key")
        if self.idem and ik and req.method == "POST":
            with self.lock:
                if ik in self.replay:
                    raw, r = self.replay[ik]
                    if raw != req.raw:
                        return self.idem_mismatch(req)
                    return R(r.status, r.body, dict(r.headers, **{"Idempotent-Replayed": "true"}), r.ctype)
        try:
            r = getattr(self, "op_" + op)(req, *req.args)
        except Bad as b:
            r = self.refused(req, b.errs)
        if self.idem and ik and req.method == "POST" and r.status < 500:
            self.replay[ik] = (req.raw, r)
        return r

    def throttled(self, req, wait):
        if not (self.xdoc and req.path.startswith("/v1/")):
            return self.limited(req, wait)
        r = self.xerror(429, "rate_limited", "Too many requests.")
        r.headers["Retry-After"] = "1"
        return r

    def refused(self, req, errs):
        if self.xdoc and req.path.startswith("/v1/"):
            return self.xerror(422, "invalid_request", "; ".join("%s: %s" % (f or "body", m) for f, c, m in errs))
        return self.invalid(req, errs)

    # --- checks
    def obj(self, req, known):
        j = req.json
        if not isinstance(j, dict):
            raise Bad(("", "type", "expected a JSON object"))
        self.check_members(j, known)
        return j

    def check_members(self, j, known):
        if self.strict:
            for k in j:
                if k not in known:
                    raise Bad((k, "unknown", "unknown field %s" % k))
        if self.no_null:
            for k, v in j.items():
                if v is None:
                    raise Bad((k, "type", "%s must not be null" % k))

    def check_types(self, j):
        """The documented types of an email's fields."""
        strs = lambda v: isinstance(v, str) or isinstance(v, list) and all(isinstance(x, str) for x in v)
        e = [(k, "type", "%s must be a string" % k) for k in ("from", "subject", "html", "text", "scheduledAt", "templateId") if j.get(k) is not None and not isinstance(j[k], str)]
        e += [(k, "type", "%s must be a string or a list of strings" % k) for k in ("to", "cc", "bcc", "replyTo") if j.get(k) is not None and not strs(j[k])]
        e += [(k, "type", "%s must be an object" % k) for k in ("headers", "tags", "variables") if j.get(k) is not None and not isinstance(j[k], dict)]
        e += [(k, "type", "%s must be a list" % k) for k in ("attachments",) if j.get(k) is not None and not isinstance(j[k], list)]
        return e

    def item_errors(self, j):
        """What is wrong with one email of a batch; the code "unverified" for its sender's domain."""
        try:
            er = self.check_email(j)
        except Bad as b:
            er = b.errs
        if not er and not self.sender_ok(j):
            er = [("from", "unverified", "The domain %s is not verified." % self.sender_domain(j))]
        return er

    def batch_at(self, req):
        """The list of a batch: the body itself (batch_member "") or the member with that (dotted) name."""
        j = req.json
        for k in filter(None, self.batch_member.split(".")):
            j = j.get(k) if isinstance(j, dict) else None
        return j

    def check_email(self, j):
        if not isinstance(j, dict):
            return [("", "type", "an email must be an object")]
        if self.typed:
            e = self.check_types(j)
            if e:
                return e
        self.check_members(j, "from to subject html text cc bcc replyTo headers attachments tags scheduledAt templateId variables".split())
        e = []
        for k in ("from", "to", "subject"):
            if not j.get(k):
                e.append((k, "required", "The %s field is required." % k))
        to = j.get("to") or []
        to = [to] if isinstance(to, str) else to
        if len(to) > 50:
            e.append(("to", "max", "The to field must not have more than 50 items."))
        for t in to:
            if "@" not in str(t):
                e.append(("to", "email", "The to field must be a valid email address."))
        if len(j.get("subject") or "") > 998:
            e.append(("subject", "max", "The subject field must not be greater than 998 characters."))
        if len(j.get("attachments") or []) > 20:
            e.append(("attachments", "max", "The attachments field must not have more than 20 items."))
        for i, a in enumerate(j.get("attachments") or []):
            try:
                base64.b64decode(a["content"], validate=True); a["filename"]
            except Exception:
                e.append(("attachments.%d" % i, "invalid", "The attachment must have a filename and Base64 content."))
        if j.get("scheduledAt"):
            try:
                t = datetime.fromisoformat(j["scheduledAt"].replace("Z", "+00:00"))
                j["_at"] = t.timestamp() if t.tzinfo else t.replace(tzinfo=timezone.utc).timestamp()
            except ValueError:
                e.append(("scheduledAt", "date", "The scheduledAt field must be a valid ISO 8601 date."))
        return e

    def sender_domain(self, j):
        m = re.search(r"@([^>\s]+)", str(j.get("from", "")))
        return (m.group(1) if m else "").lower()

    def sender_ok(self, j):
        return any(d["name"].lower() == self.sender_domain(j) and d["checks"] >= 2 for d in self.domains.values())

    def accept(self, j):
        to = [j["to"]] if isinstance(j["to"], str) else j["to"]
        e = dict(id=self.new_id("email"), req=j, to=to, created=now(), at=j.get("_at"), cancelled=None, fired=set())
        self.emails[e["id"]] = e
        threading.Thread(target=self.live, args=(e,), daemon=True).start()
        return e

    def status(self, e):
        if e["cancelled"]:
            return self.cancelled_status
        if e["at"] and e["at"] > now():
            return self.scheduled_status
        a = now() - max(e["created"], e["at"] or 0)
        local = e["to"][0].split("<")[-1].split("@")[0]
        end = {"bounce": "bounced", "fail": "failed", "complain": "complained"}.get(local, "delivered")
        return "queued" if a < .4 else "sending" if a < .8 else ("sent" if end != "failed" else "failed") if a < 1.2 else end

    def live(self, e):
        while True:
            s = self.status(e)
            if e["cancelled"]:
                return
            if s in ("sent", "delivered", "bounced", "failed", "complained") and s not in e["fired"]:
                e["fired"].add(s)
                self.fire("email." + s, e)
            if s in ("delivered", "bounced", "failed", "complained"):
                return
            time.sleep(.2 if not e["at"] or e["at"] - now() < 60 else 5)

    # --- operations: e-mails
    def op_email_send(self, req):
        j = self.obj(req, "from to subject html text cc bcc replyTo headers attachments tags scheduledAt templateId variables".split())
        errs = self.check_email(j)
        if errs:
            raise Bad(*errs)
        if not self.sender_ok(j):
            return self.unverified(req, self.sender_domain(j))
        return self.email_accepted(req, self.accept(j))

    def op_email_batch(self, req):
        items = self.batch_read(req)
        if not isinstance(items, list) or not items:
            raise Bad((self.batch_member, "required", "A list of emails is required."))
        if len(items) > 100:
            raise Bad((self.batch_member, "max", "At most 100 emails per batch."))
        return self.batch_do(req, items)

    def op_email_get(self, req, id):
        e = self.emails.get(id)
        return self.email_view(req, e) if e else self.not_found(req, "email", id)

    def op_email_cancel(self, req, id):
        e = self.emails.get(id)
        if not e:
            return self.not_found(req, "email", id)
        if e["cancelled"] or not e["at"] or e["at"] <= now():
            return self.not_cancellable(req, e)
        e["cancelled"] = now()
        return self.email_cancelled(req, e)

    # --- audiences and contacts
    def op_audience_create(self, req):
        j = self.obj(req, ["name"])
        if not j.get("name"):
            raise Bad(("name", "required", "The name field is required."))
        a = dict(id=self.new_id("audience"), name=j["name"], created=now())
        self.audiences[a["id"]] = a
        return self.audience_created(req, a)

    def op_audience_list(self, req):
        return self.audience_listed(req, list(self.audiences.values()))

    def op_audience_get(self, req, id):
        return self.audience_view(req, self.audiences[id]) if id in self.audiences else self.not_found(req, "audience", id)

    def op_audience_delete(self, req, id):
        if not self.audiences.pop(id, None):
            return self.not_found(req, "audience", id)
        for c in [c for c in self.contacts.values() if c["audience"] == id]:
            self.contacts.pop(c["id"])
        return R(204)

    def op_contact_create(self, req, aid):
        if aid not in self.audiences:
            return self.not_found(req, "audience", aid)
        j = self.obj(req, ["email", "name", "metadata", "topics"])
        if "@" not in str(j.get("email", "")):
            raise Bad(("email", "required", "The email field must be a valid email address."))
        old = [c for c in self.contacts.values() if c["audience"] == aid and c["email"].lower() == j["email"].lower()]
        if old and self.dup_contact == "refuse":
            return self.duplicate(req, old[0])
        c = old[0] if old else dict(id=self.new_id("contact"), audience=aid, subscribed=True, created=now(), email=j["email"], name=None, metadata={}, topics=[])
        c.update({k: j[k] for k in ("name", "topics") if k in j})
        c["metadata"] = {**c["metadata"], **(j.get("metadata") or {})}
        self.contacts[c["id"]] = c
        return self.contact_created(req, c, bool(old))

    def op_contact_list(self, req, aid):
        if aid not in self.audiences:
            return self.not_found(req, "audience", aid)
        if os.environ.get("PAST") == "404":        # as Django REST framework does: a page past the end does not exist
            p, n = self.pages(req, 1, self.page_size, self.page_most, True)
            if p > 1 and (p - 1) * n >= sum(c["audience"] == aid for c in self.contacts.values()):
                return self.not_found(req, "page", str(p))
        return self.contact_listed(req, [c for c in self.contacts.values() if c["audience"] == aid], aid)

    def op_contact_update(self, req, id):
        c = self.contacts.get(id)
        if not c:
            return self.not_found(req, "contact", id)
        j = self.obj(req, ["name", "metadata", "topics", "subscribed"])
        c.update({k: j[k] for k in ("name", "topics", "subscribed") if k in j})
        if "metadata" in j:
            c["metadata"] = {**c["metadata"], **(j["metadata"] or {})}
        return self.contact_updated(req, c)

    def op_contact_delete(self, req, id):
        return R(204) if self.contacts.pop(id, None) else self.not_found(req, "contact", id)

    # --- domains
    def flags(self, d):
        n = d["checks"]
        return dict(mx_verified=n >= 1, spf_verified=n >= 1, dkim_verified=n >= 2, dmarc_verified=n >= 1, verified=n >= 2)

    def op_domain_list(self, req):
        return self.domain_listed(req, list(self.domains.values()))

    def op_domain_create(self, req):
        j = self.obj(req, ["name"])
        if "." not in str(j.get("name", "")):
            raise Bad(("name", "required", "The name field must be a domain name."))
        d = dict(id=self.new_id("domain"), name=j["name"].lower(), checks=0, created=now())
        self.domains[d["id"]] = d
        return self.domain_created(req, d)

    def op_domain_verify(self, req, id):
        d = self.domains.get(id)
        if not d:
            return self.not_found(req, "domain", id)
        d["checks"] += 1
        return self.domain_checked(req, d)

    def op_domain_delete(self, req, id):
        d = self.domains.pop(id, None)
        return self.domain_gone(req, d) if d else self.not_found(req, "domain", id)

    # --- webhooks of the e-mail service
    def check_hook(self, j, events, part=False):
        e = []
        if not part or "url" in j:
            if not re.match(r"https?://", str(j.get("url", ""))) or (str(j["url"]).startswith("http:") and "127.0.0.1" not in j["url"] and "localhost" not in j["url"]):
                e.append(("url", "url", "The url field must be an https URL."))
        if not part or "events" in j:
            if not isinstance(j.get("events"), list) or not j["events"]:
                e.append(("events", "required", "The events field is required."))
            else:
                e += [("events", "in", "Unknown event %s." % v) for v in j["events"] if v not in events]
        if self.typed and "active" in j and not isinstance(j["active"], bool):
            e.append(("active", "type", "The active field must be a boolean."))
        if e:
            raise Bad(*e)

    def secret(self):
        return "whsec_" + secrets.token_urlsafe(24)

    def op_webhook_create(self, req):
        j = self.obj(req, ["url", "events"])
        self.check_hook(j, EVENTS)
        w = dict(id=self.new_id("webhook"), url=j["url"], events=j["events"], active=True, secret=self.secret(), created=now())
        self.webhooks[w["id"]] = w
        return self.webhook_created(req, w)

    def op_webhook_list(self, req):
        return self.webhook_listed(req, list(self.webhooks.values()))

    def op_webhook_update(self, req, id):
        w = self.webhooks.get(id)
        if not w:
            return self.not_found(req, "webhook", id)
        j = self.obj(req, ["url", "events", "active"])
        self.check_hook(j, EVENTS, True)
        w.update({k: j[k] for k in ("url", "events", "active") if k in j})
        return self.webhook_updated(req, w)

    def op_webhook_delete(self, req, id):
        return R(204) if self.webhooks.pop(id, None) else self.not_found(req, "webhook", id)

    def op_webhook_test(self, req, id):
        w = self.webhooks.get(id)
        if not w:
            return self.not_found(req, "webhook", id)
        e = dict(id=self.new_id("email"), req={"from": "a@example.com", "subject": "Test", "to": "b@example.net"}, to=["b@example.net"], created=now(), at=None, cancelled=None, fired=set())
        body, h = self.delivery(w["events"][0], e)
        return self.webhook_tested(req, w, self.post(w["url"], body, dict(h, **{"Mail-Signature": self.sign(w, body)})))

    # --- extraction service
    def op_me(self, req):
        return R(200, {"organization": {"id": "org_7f3a", "name": "Acme GmbH & Söhne", "balance_cents": 125050},
                       "auth": {"method": "api_key", "scope": XKEYS[req.key], "key_id": "key_19"}})

    def op_xhook_create(self, req):
        j = self.obj(req, ["url", "events"])
        self.check_hook(j, XEVENTS)
        w = dict(id=self.new_id("xhook"), url=j["url"], events=j["events"], secret=secrets.token_hex(20), created=now())
        self.xhooks[w["id"]] = w
        return self.xhook_created(req, w)

    def xhook_view(self, w, secret=False):
        v = dict(id=w["id"], url=w["url"], events=w["events"], status="active")
        if secret:
            v["secret"] = w["secret"]
        return v

    def op_xhook_list(self, req):
        return self.xhook_listed(req, list(self.xhooks.values()))

    def op_xhook_delete(self, req, id):
        w = self.xhooks.pop(id, None)
        return self.xhook_gone(req, w) if w else self.xerror(404, "not_found", "No such webhook endpoint: %s" % id)

    def xerror(self, status, code, message):
        return R(status, {"error": {"code": code, "message": message}})

    # --- deliveries
    def sign(self, w, body):
        return hmac.new(w["secret"].encode(), body, hashlib.sha256).hexdigest()

    def fire(self, event, e):
        body, h = self.delivery(event, e)
        for w in list(self.webhooks.values()):
            if w["active"] and event in w["events"] and ".example/" not in w["url"]:   # nobody listens there
                hh = dict(h, **{"Mail-Signature": self.sign(w, body)})
                threading.Thread(target=self.deliver, args=(w["url"], body, hh), daemon=True).start()

    def xfire(self, event):
        data = {"invoice_number": "R-1", "total": 12.5} if event.endswith("completed") else {"error": self.xfail}
        body = json.dumps({"event": event, "id": str(uuid.uuid4()), "data": data, "created": iso(now(), self.frac)}).encode()
        for w in list(self.xhooks.values()):
            if event in w["events"]:
                h = {"Content-Type": "application/json", "X-Service-Event": event, "X-Service-Signature": "sha256=" + self.sign(w, body)}
                threading.Thread(target=self.deliver, args=(w["url"], body, h), daemon=True).start()
    xfail, frac = "unreadable document", True

    def deliver(self, url, body, h):
        for n in range(4):
            s = self.post(url, body, h)
            self.deliveries.append(dict(url=url, body=body.decode(), headers=h, attempt=n + 1, status=s))
            if s and 200 <= s < 300:
                return
            time.sleep(.5 * 2 ** n)

    def post(self, url, body, h):
        try:
            u = urlsplit(url)
            c = (http.client.HTTPSConnection if u.scheme == "https" else http.client.HTTPConnection)(u.netloc, timeout=10)
            c.request("POST", u.path or "/", body, h)
            s = c.getresponse().status
            c.close()
            return s
        except Exception:
            return 0

    # --- pages as documented: page and pageSize
    def pages(self, req, first, default, most, clamp):
        try:
            most = int(os.environ.get("PAGE_MAX", most))
            p = int(req.query.get("page", [first])[0]); n = int(req.query.get("pageSize", [default])[0])
        except ValueError:
            raise Bad(("page", "integer", "page and pageSize must be integers"))
        if p < first:
            raise Bad(("page", "min", "page must be at least %d" % first))
        if n < 1 or (n > most and not clamp):
            raise Bad(("pageSize", "max", "pageSize must be between 1 and %d" % most))
        return p, min(n, most)

    def cut(self, req, l):
        """The page of a list that page and pageSize ask for: (its items, page, size)."""
        p, n = self.pages(req, 1, self.page_size, self.page_most, self.page_clamp)
        return l[(p - 1) * n:p * n], p, n


class Req:
    pass


def make(style):
    class H(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        server_version, sys_version = style.name, ""

        def log_message(self, *a):
            pass

        def address_string(self):
            return self.client_address[0]

        def go(self):
            u = urlsplit(self.path)
            h = self.headers
            if "chunked" in h.get("Transfer-Encoding", ""):
                raw = b""
                while True:
                    n = int(self.rfile.readline().split(b";")[0], 16)
                    raw += self.rfile.read(n); self.rfile.readline()
                    if not n:
                        break
            else:
                raw = self.rfile.read(int(h.get("Content-Length", 0)))
            q = parse_qs(u.query, keep_blank_values=True)
            if u.path.startswith("/_ctl/"):
                return self.ctl(u.path[6:], q)
            r = Req()
            r.method, r.path, r.query, r.headers, r.raw, r.json, r.op, r.remaining = self.command, u.path, q, h, raw, None, "", None
            r.id = secrets.token_hex(8)
            f = None
            with style.lock:
                for x in style.faults:
                    if x["method"] == self.command and re.search(x["path"], u.path) and x["n"] > 0:
                        x["n"] -= 1; f = x["kind"]; break
            if f == "429":
                a = style.throttled(r, 1.0)
            elif f == "502":
                a = R(502, b"<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body></html>", ctype="text/html")
            else:
                try:
                    a = style.handle(r)
                except Exception:
                    traceback.print_exc()
                    a = R(500, b"Internal Server Error", ctype="text/plain")
                if f == "accept503":
                    a = R(503, b"upstream connect error or disconnect/reset before headers", ctype="text/plain")
                elif f == "drop":
                    style.log.append(dict(method=self.command, path=self.path, status="dropped", body=raw.decode("utf8", "replace")))
                    self.close_connection = True
                    return
            style.log.append(dict(t=round(now(), 3), method=self.command, path=self.path, status=a.status, fault=f, headers=dict(h), body=raw.decode("utf8", "replace")[:3000]))
            style.write(self, r, a)

        do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = go

        def ctl(self, what, q):
            out = {}
            if what == "log":
                out = style.log
            elif what == "reset":
                style.reset()
            elif what == "deliveries":
                out = style.deliveries
            elif what == "state":
                out = {k: len(getattr(style, k)) for k in ("emails", "audiences", "contacts", "domains", "webhooks", "xhooks")}
            elif what == "emails":
                out = [dict(id=e["id"], to=e["to"], status=style.status(e), req=e["req"]) for e in style.emails.values()]
            elif what == "contacts":
                out = list(style.contacts.values())
            elif what == "fire":
                style.xfire(q["event"][0]) if q["event"][0] in XEVENTS else style.fire(q["event"][0], style.accept({"from": "a@example.com", "to": "x@example.net", "subject": "s"}))
            elif what == "fault":
                style.faults.append(dict(kind=q["kind"][0], method=q.get("method", ["POST"])[0], path=q.get("path", ["."])[0], n=int(q.get("n", [1])[0])))
            elif what == "revoke":
                style.revoked.add(q["key"][0])
            elif what == "rate":
                style.rate = int(q["n"][0])
            b = json.dumps(out).encode()
            self.send_response(200); self.send_header("Content-Length", str(len(b))); self.end_headers(); self.wfile.write(b)
    return H


def write(style, http, req, a):
    """The ordinary way to write an answer; style 6 has its own."""
    b = b"" if a.body is None else a.body if isinstance(a.body, bytes) else json.dumps(a.body, **getattr(style, "dumps", {})).encode()
    http.send_response(a.status)
    for k, v in {**style.common(req), **a.headers}.items():
        http.send_header(k, v)
    if a.status != 204:
        if b:
            http.send_header("Content-Type", a.ctype)
        http.send_header("Content-Length", str(len(b)))
    http.end_headers()
    if a.status != 204:
        http.wfile.write(b)


Style.write = write
Style.common = lambda self, req: {}


def env(name, default=""):
    """A variant by environment."""
    return os.environ.get(name, default)


class Team(Style):
    """What the five newer styles have in common: strict types, documented errors of the extraction service, variants."""
    xdoc = typed = True
    created = 200                                   # success status of the create operations

    def __init__(self):
        self.batch_member = env("BATCH", self.batch_member).replace("array", "")
        self.dup_contact = env("DUP", "refuse")     # refuse, upsert
        self.idem = bool(env("IDEM"))
        self.created = int(env("CREATED", self.created))
        self.scheduled_status = env("SCHEDULED", self.scheduled_status)
        self.page_size = int(env("PAGE_SIZE", self.page_size))
        super().__init__()

    batch_read = Style.batch_at

    def doc(self, k):
        """The spelling of a documented resource field in answers; CASE=pascal spells it like the others."""
        return k[0].upper() + k[1:] if env("CASE") == "pascal" else k


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def server_bind(self):                          # without HTTPServer's look-up of the host's name
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address


def serve(style, port):
    s = Server(("127.0.0.1", port), make(style))
    print("http://127.0.0.1:%d" % s.server_port, flush=True)
    s.serve_forever()
