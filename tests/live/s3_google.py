"""3 Google AIP: resource names ("emails/123") instead of ids, camelCase, unset and empty fields left out, int64 as strings, enums in
upper case, nextPageToken, google.rpc errors; the key in X-Goog-Api-Key.

`name` is a documented field of audiences, contacts and domains (their own name), so there the resource name is `resourceName`.

Variants: IDS=both (an `id` beside the resource name), EMPTY=list (empty lists and tokens are shown), DEFAULTS=omit (a false `subscribed`
or `active` is left out, as proto3 does), STATE_FIELD=status, PARTIAL=1 (batch with failedRequests, AIP-233; default: all or none),
CANCEL=empty, KEY_ERRORS=google (403 for no key, 400 for a wrong one), UNKNOWN=ignore (unknown query parameters and members are taken),
RETRY_AFTER=1 (a header beside RetryInfo), LENGTH=lax (a POST without Content-Length is taken; default: 411)."""
from core import *

STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ALREADY_EXISTS", 429: "RESOURCE_EXHAUSTED", 501: "UNIMPLEMENTED"}


class S(Team):
    name = "ESF"
    batch_member = "requests"
    scheduled_status, cancelled_status = "scheduled", "cancelled"
    page_size, page_most = 50, 1000
    dumps = {"indent": 2}
    xfail = {"code": 3, "message": "The document could not be read."}
    n = 7412589630147852361

    @property
    def strict(self): return env("UNKNOWN") != "ignore"

    def new_id(self, kind):
        S.n += 1 + secrets.randbelow(9999)
        return str(S.n)

    def mail_key(self, h, q): return h.get("X-Goog-Api-Key")

    def common(self, req): return {"Vary": "Origin, X-Origin, Referer", "Cache-Control": "private", "X-Content-Type-Options": "nosniff"}

    def ok(self, body, status=200): return R(status, body, ctype="application/json; charset=UTF-8")

    def handle(self, req):
        if req.method == "POST" and req.headers.get("Content-Length") is None and "chunked" not in req.headers.get("Transfer-Encoding", "") and env("LENGTH") != "lax":
            return R(411, b"<!DOCTYPE html><html lang=en><title>Error 411 (Length Required)!!1</title><p><b>411.</b> POST requests require a <code>Content-length</code> header.", ctype="text/html; charset=UTF-8")
        return super().handle(req)

    # --- errors
    def err(self, code, message, reason=None, fields=None, status=None, more=(), **h):
        d = []
        if reason:
            d.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "mail.googleapis.test"})
        if fields:
            d.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{"field": f, "description": m} for f, c, m in fields]})
        e = {"code": code, "message": message, "status": status or STATUS[code]}
        if d or more:
            e["details"] = d + list(more)
        return R(code, {"error": e}, h, "application/json; charset=UTF-8")

    def no_route(self, req): return R(404, b"<!DOCTYPE html><html lang=en><title>Error 404 (Not Found)!!1</title><p><b>404.</b> <ins>That's an error.</ins>", ctype="text/html; charset=UTF-8")
    def no_method(self, req): return self.no_route(req)
    def unauthorized(self, req, key):
        if env("KEY_ERRORS") == "google":
            return self.err(403, "Method doesn't allow unregistered callers. Please use API Key.") if key is None else self.err(400, "API key not valid. Please pass a valid API key.", "API_KEY_INVALID")
        return self.err(401, "Request is missing required authentication credential." if key is None else "API key not valid. Please pass a valid API key.", "CREDENTIALS_MISSING" if key is None else "API_KEY_INVALID")
    def forbidden(self, req, scope): return self.err(403, "Request had insufficient authentication scopes.", "ACCESS_TOKEN_SCOPE_INSUFFICIENT")
    def xforbidden(self, req): return self.xerror(403, "permission_denied", "Request had insufficient authentication scopes.")
    def limited(self, req, wait):
        return self.err(429, "Quota exceeded for quota metric 'Requests' and limit 'Requests per second'.", "RATE_LIMIT_EXCEEDED",
                        more=[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}], **({"Retry-After": "1"} if env("RETRY_AFTER") else {}))
    def bad_type(self, req): return self.err(400, "Invalid JSON payload received. Expected Content-Type application/json.")
    def invalid(self, req, errs):
        m = {"json": "Invalid JSON payload received. %s" % errs[0][2], "unknown": 'Invalid JSON payload received. Unknown name "%s": Cannot find field.' % errs[0][0]}
        return self.err(400, m.get(errs[0][1], "Request contains an invalid argument."), fields=[(f or "body", c, t) for f, c, t in errs])
    def not_found(self, req, kind, id): return self.err(404, "Requested entity was not found.")
    def unverified(self, req, d): return self.err(400, "The sender domain %s is not verified." % d, "SENDER_DOMAIN_NOT_VERIFIED", status="FAILED_PRECONDITION")
    def idem_mismatch(self, req): return self.err(409, "The idempotency key was used with another request.", status="ABORTED")
    def not_cancellable(self, req, e): return self.err(400, "Email is in state %s and cannot be cancelled." % self.state(e), "EMAIL_NOT_SCHEDULED", status="FAILED_PRECONDITION")
    def duplicate(self, req, c): return self.err(409, "Requested entity already exists", more=[{"@type": "type.googleapis.com/google.rpc.ResourceInfo", "resourceType": "Contact", "resourceName": self.rn("contact", c)}])

    # --- resources
    def t(self, x): return iso(x, False)[:-1] + ".%06dZ" % (x % 1 * 1e6) if x else None
    def rn(self, kind, x): return "audiences/%s/contacts/%s" % (x["audience"], x["id"]) if kind == "contact" else "%ss/%s" % (kind, x["id"])
    def state(self, e): return self.status(e).upper()

    def res(self, kind, x, fields):
        r = {"name" if kind in ("email", "webhook") else "resourceName": self.rn(kind, x)}
        if env("IDS") == "both":
            r["id"] = x["id"]
        keep = lambda k, v: v not in (None, "", [], {}) and not (v is False and k in ("subscribed", "active") and env("DEFAULTS") == "omit")
        return {**r, **{k: v for k, v in fields.items() if keep(k, v)}, "createTime": self.t(x["created"])}

    def many(self, req, member, l, view, page=False):
        """A list: pageSize and pageToken; `page` only where the documents name it."""
        known = {"pageSize", "pageToken", "key", "alt", "fields", "prettyPrint"} | ({"page"} if page else set())
        wrong = [k for k in req.query if k not in known]
        if wrong and self.strict:
            return self.refused(req, [(k, "unknown", "Cannot bind query parameter. Field '%s' could not be found in request message." % k) for k in wrong])
        if req.query.get("pageSize") == ["0"]:
            del req.query["pageSize"]
        _, p, n = self.cut(req, l)
        at = (p - 1) * n
        if req.query.get("pageToken", [""])[0]:
            try:
                at = int(base64.urlsafe_b64decode(req.query["pageToken"][0] + "==").decode().split(":")[1])
            except (ValueError, IndexError):
                raise Bad(("pageToken", "invalid", "The page token is not valid."))
        nxt = base64.urlsafe_b64encode(b"o:%d" % (at + n)).decode().rstrip("=") if at + n < len(l) else ""
        b = {member: [view(x) for x in l[at:at + n]], "nextPageToken": nxt}
        if env("EMPTY") != "list":
            b = {k: v for k, v in b.items() if v}
        if page:
            b["totalSize"] = len(l)
        return self.ok(b)

    # --- e-mails
    def ev(self, e):
        q = e["req"]
        ar = lambda v: None if v is None else [v] if isinstance(v, str) else v
        return self.res("email", e, {"from": q["from"], "to": e["to"], "cc": ar(q.get("cc")), "bcc": ar(q.get("bcc")), "replyTo": ar(q.get("replyTo")), "subject": q["subject"], "tags": q.get("tags"),
                                     "template": q.get("templateId") and "templates/" + q["templateId"], env("STATE_FIELD", "state"): self.state(e), "scheduleTime": self.t(e["at"]), "cancelTime": self.t(e["cancelled"]),
                                     "sizeBytes": str(len(json.dumps(q))), "openCount": "0", "etag": '"%s"' % hashlib.md5((e["id"] + self.state(e)).encode()).hexdigest()[:8]})
    def email_accepted(self, req, e): return self.ok(self.ev(e), self.created)
    def email_view(self, req, e): return self.ok(self.ev(e))
    def email_cancelled(self, req, e): return self.ok({} if env("CANCEL") == "empty" else self.ev(e))
    def batch_do(self, req, items):
        # AIP-233: each request holds its `email`; the flat email of the single call is taken as well
        items = [j["email"] if isinstance(j, dict) and isinstance(j.get("email"), dict) else j for j in items]
        errs = [self.item_errors(j) for j in items]
        if any(errs) and not env("PARTIAL"):
            return self.err(400, "Request contains an invalid argument.", fields=[("requests[%d].email%s" % (i, "." + f if f else ""), c, m) for i, er in enumerate(errs) for f, c, m in er])
        b = {"emails": [self.ev(self.accept(j)) for j, er in zip(items, errs) if not er]}
        if any(errs):
            b["failedRequests"] = {str(i): {"code": 9 if er[0][1] == "unverified" else 3, "message": er[0][2]} for i, er in enumerate(errs) if er}
        return self.ok(b)

    # --- audiences and contacts
    def a(self, a): return self.res("audience", a, {"name": a["name"], "contactCount": str(sum(c["audience"] == a["id"] for c in self.contacts.values()))})
    def audience_created(self, req, a): return self.ok(self.a(a), self.created)
    def audience_listed(self, req, l): return self.many(req, "audiences", l, self.a)
    def audience_view(self, req, a): return self.ok(self.a(a))
    def c(self, c): return self.res("contact", c, {k: c[k] for k in ("email", "name", "metadata", "topics", "subscribed")})
    def contact_created(self, req, c, old): return self.ok(self.c(c), self.created)
    def contact_listed(self, req, l, aid): return self.many(req, "contacts", l, self.c, True)
    def contact_updated(self, req, c): return self.ok(self.c(c))

    # --- domains: records as Cloud DNS has them
    def dv(self, d): return self.res("domain", d, {"name": d["name"], **self.flags(d), "state": "ACTIVE" if d["checks"] >= 2 else "PENDING_VERIFICATION"})
    def domain_created(self, req, d):
        r = lambda host, typ, data: {"kind": "dns#resourceRecordSet", "name": host + d["name"] + ".", "type": typ, "ttl": 3600, "rrdatas": [data]}
        return self.ok({**self.dv(d), "dnsRecords": [r("", "MX", "10 mx.mail.test."), r("", "TXT", '"v=spf1 include:mail.test ~all"'), r("google._domainkey.", "TXT", '"v=DKIM1; k=rsa; p=MIIBIjANBg"'), r("_dmarc.", "TXT", '"v=DMARC1; p=none"')]}, self.created)
    def domain_listed(self, req, l): return self.many(req, "domains", l, self.dv)
    def domain_checked(self, req, d): return self.ok(self.dv(d))
    def domain_gone(self, req, d): return self.ok({"ok": True})

    # --- webhooks
    def w(self, w, **more): return self.res("webhook", w, {"url": w["url"], "events": w["events"], "active": w["active"], **more})
    def webhook_created(self, req, w): return self.ok(self.w(w, signingSecret=w["secret"]), self.created)
    def webhook_listed(self, req, l): return self.many(req, "webhooks", l, self.w)
    def webhook_updated(self, req, w): return self.ok(self.w(w))
    def webhook_tested(self, req, w, code): return self.ok({"responseCode": code} if code else {"errorMessage": "The endpoint could not be reached."})
    def delivery(self, ev, e):
        b = {"eventId": str(secrets.randbits(62)), "eventType": ev, "eventTime": self.t(now()), "email": self.ev(e)}
        return json.dumps(b, indent=2).encode(), {"Content-Type": "application/json; charset=UTF-8", "X-Goog-Event-Type": ev, "User-Agent": "APIs-Google; (+https://mail.googleapis.test)"}

    # --- extraction service
    def xhook_created(self, req, w): return R(self.created, self.xhook_view(w, True))
    def xhook_listed(self, req, l): return self.many(req, "webhooks", l, self.xhook_view)
    def xhook_gone(self, req, w): return R(200, {})
