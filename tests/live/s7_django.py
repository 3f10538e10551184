"""7 Django REST framework: {"count","next","previous","results"} with full links, a page past the end is 404, {"detail"} or {"field":["…"]},
snake_case answers, integer ids, paths with or without a slash at the end; the key as "Authorization: Token …".

Variants: PAST=empty (a page past the end is an empty one), LISTS=plain (only the contacts come in pages, the other lists are bare arrays),
LINKS=internal (next and previous name the host behind the proxy), ID=pk|uuid|url (the id's field is "pk"; UUIDs; no id but a full "url",
save on webhooks), BATCH_STATUS=207, CANCEL=204|full, AUTH=403 (no WWW-Authenticate, so DRF answers 403 for a missing key), WAIT=n."""
from core import *


class S(Team):
    name = "gunicorn"
    batch_member = ""
    created = 201
    page_size, page_most = 20, 100
    xfail = ["The document could not be read."]

    @property
    def seq_ids(self): return env("ID") != "uuid"

    def mail_key(self, h, q):
        a = h.get("Authorization", "").split()
        return a[1] if len(a) == 2 and a[0].lower() == "token" else None

    def common(self, req): return {"Allow": "GET, POST, PATCH, DELETE, HEAD, OPTIONS", "Vary": "Accept, Cookie", "X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}

    def handle(self, req):
        req.path = req.path.rstrip("/") or "/"
        return super().handle(req)

    # --- errors
    def d(self, status, detail, **h): return R(status, {"detail": detail}, h)
    def no_route(self, req): return R(404, b"\n<!doctype html>\n<html lang=\"en\">\n<head>\n  <title>Not Found</title>\n</head>\n<body>\n  <h1>Not Found</h1><p>The requested resource was not found on this server.</p>\n</body>\n</html>\n", ctype="text/html; charset=utf-8")
    def no_method(self, req): return self.d(405, 'Method "%s" not allowed.' % req.method)
    def unauthorized(self, req, key):
        msg = "Invalid token." if key is not None else "Authentication credentials were not provided."
        return self.d(403, msg) if env("AUTH") == "403" else self.d(401, msg, **{"WWW-Authenticate": "Token"})
    def forbidden(self, req, scope): return self.d(403, "You do not have permission to perform this action.")
    def xforbidden(self, req): return self.xerror(403, "permission_denied", "You do not have permission to perform this action.")
    def limited(self, req, wait):
        n = int(env("WAIT", "1"))
        return self.d(429, "Request was throttled. Expected available in %d second%s." % (n, "" if n == 1 else "s"), **{"Retry-After": str(n)})
    def bad_type(self, req): return self.d(415, 'Unsupported media type "%s" in request.' % req.headers.get("Content-Type", ""))
    def fields(self, errs):
        e = {}
        for f, c, m in errs:
            m = {"required": "This field is required.", "email": "Enter a valid email address.", "date": "Datetime has wrong format. Use one of these formats instead: YYYY-MM-DDThh:mm[:ss[.uuuuuu]][+HH:MM|-HH:MM|Z]."}.get(c, m)
            e.setdefault(f.split(".")[0] or "non_field_errors", []).append(m)
        return e
    def invalid(self, req, errs):
        if errs[0][1] == "json":
            return self.d(400, "JSON parse error - " + errs[0][2].split(": ", 1)[-1])
        if req.op == "email_batch" and errs[0][0] == "":
            return R(400, {"non_field_errors": ['Expected a list of items but got type "%s".' % type(req.json).__name__ if not isinstance(req.json, list) else
                                                "This list may not be empty." if not req.json else "Ensure this field has no more than 100 elements."]})
        return R(400, self.fields(errs))
    def not_found(self, req, kind, id):
        if req.path.startswith("/v1/"):
            return self.xerror(404, "not_found", "Invalid page.")
        return self.d(404, "Invalid page." if kind == "page" else "No %s matches the given query." % kind.capitalize())
    def unverified(self, req, d): return R(400, {"from": ["The domain %s is not verified." % d]})
    def idem_mismatch(self, req): return self.d(409, "This Idempotency-Key was used with another request.")
    def not_cancellable(self, req, e): return R(400, {"non_field_errors": ["Only scheduled emails can be cancelled."]})
    def duplicate(self, req, c): return R(400, {"non_field_errors": ["The fields audience, email must make a unique set."]})

    # --- lists
    def many(self, req, l, view, always=False):
        if env("LISTS") == "plain" and not always:
            return R(200, [view(x) for x in l])
        try:
            n = int(req.query["pageSize"][0])
            n = min(n, int(env("PAGE_MAX", self.page_most))) if n > 0 else self.page_size
        except (KeyError, ValueError):              # DRF falls back silently
            n = self.page_size
        last = max(1, -(-len(l) // n))
        p = req.query.get("page", ["1"])[0]
        p = last if p == "last" else int(p) if p.isdigit() else 0
        if p < 1 or p > last and env("PAST") != "empty":
            return self.not_found(req, "page", p)
        def link(i):
            q = {k: v[0] for k, v in sorted(req.query.items()) if k != "page"}
            if i > 1:
                q["page"] = i
            return "http://%s%s/%s" % ("backend:8000" if env("LINKS") == "internal" else req.headers.get("Host"), req.path, "?" + urlencode(q) if q else "")
        return R(200, {"count": len(l), "next": link(p + 1) if p < last else None, "previous": link(min(p - 1, last)) if p > 1 else None, "results": [view(x) for x in l[(p - 1) * n:p * n]]})

    def id(self, x, path):
        if env("ID") == "url" and path != "webhooks":
            return {"url": "http://localhost/api/v1/%s/%s/" % (path, x["id"])}
        return {"pk" if env("ID") == "pk" else "id": int(x["id"]) if x["id"].isdigit() else x["id"]}
    def ref(self, id): return int(id) if id.isdigit() else id
    def t(self, x): return iso(x, False)[:-1] + ".%06dZ" % (x % 1 * 1e6) if x else None

    # --- e-mails
    def ev(self, e):
        q = e["req"]
        ar = lambda v: [] if v is None else [v] if isinstance(v, str) else v
        return {**self.id(e, "emails"), "from": q["from"], "to": e["to"], "cc": ar(q.get("cc")), "bcc": ar(q.get("bcc")), "reply_to": ar(q.get("replyTo")), "subject": q["subject"], "html": q.get("html") or "", "text": q.get("text") or "",
                "tags": q.get("tags") or {}, "template_id": q.get("templateId"), "status": self.status(e), "scheduled_at": self.t(e["at"]), "cancelled_at": self.t(e["cancelled"]), "created_at": self.t(e["created"])}
    def email_accepted(self, req, e): return R(self.created, self.ev(e))
    def email_view(self, req, e): return R(200, self.ev(e))
    def email_cancelled(self, req, e): return R(204) if env("CANCEL") == "204" else R(200, self.ev(e) if env("CANCEL") == "full" else {"status": "cancelled"})
    def batch_do(self, req, items):
        out = []
        for i, j in enumerate(items):
            er = self.item_errors(j)
            if er:
                out.append({"index": i, "success": False, "errors": self.fields(er)})
            else:
                e = self.accept(j)
                out.append({"index": i, "success": True, **self.id(e, "emails"), "status": self.status(e)})
        return R(int(env("BATCH_STATUS", "200")), out)

    # --- audiences and contacts
    def a(self, a): return {**self.id(a, "audiences"), "name": a["name"], "contact_count": sum(c["audience"] == a["id"] for c in self.contacts.values()), "created_at": self.t(a["created"])}
    def audience_created(self, req, a): return R(self.created, self.a(a))
    def audience_listed(self, req, l): return self.many(req, l, self.a)
    def audience_view(self, req, a): return R(200, self.a(a))
    def c(self, c): return {**self.id(c, "contacts"), "audience": self.ref(c["audience"]), "email": c["email"], "name": c["name"] or "", "metadata": c["metadata"], "topics": c["topics"], "subscribed": c["subscribed"], "created_at": self.t(c["created"])}
    def contact_created(self, req, c, old): return R(self.created, self.c(c))
    def contact_listed(self, req, l, aid): return self.many(req, l, self.c, True)
    def contact_updated(self, req, c): return R(200, self.c(c))

    # --- domains
    def dv(self, d): return {**self.id(d, "domains"), "name": d["name"], **self.flags(d), "created_at": self.t(d["created"])}
    def domain_created(self, req, d):
        r = lambda typ, host, v, **k: {"type": typ, "host": host, "value": v, **k}
        return R(self.created, {**self.dv(d), "dns_records": {"mx": r("MX", "@", "mx.mail.test", priority=10), "spf": r("TXT", "@", "v=spf1 include:mail.test ~all"), "dkim": r("TXT", "django._domainkey", "v=DKIM1; k=rsa; p=MIIBIjANBg"), "dmarc": r("TXT", "_dmarc", "v=DMARC1; p=none")}})
    def domain_listed(self, req, l): return self.many(req, l, self.dv)
    def domain_checked(self, req, d): return R(200, self.flags(d))
    def domain_gone(self, req, d): return R(200, {"ok": True})

    # --- webhooks
    def w(self, w, **more): return {**self.id(w, "webhooks"), "url": w["url"], "events": w["events"], "active": w["active"], "created_at": self.t(w["created"]), **more}
    def webhook_created(self, req, w): return R(self.created, self.w(w, signingSecret=w["secret"]))
    def webhook_listed(self, req, l): return self.many(req, l, self.w)
    def webhook_updated(self, req, w): return R(200, self.w(w))
    def webhook_tested(self, req, w, code): return R(200, {"delivered": 200 <= code < 300, "response_status": code or None})
    def delivery(self, ev, e):
        return json.dumps({"event": ev, "sent_at": self.t(now()), "object": self.ev(e)}).encode(), {"Content-Type": "application/json", "X-Webhook-Event": ev, "User-Agent": "python-requests/2.32.3"}

    # --- extraction service
    def xhook_created(self, req, w): return R(self.created, self.xhook_view(w, True))
    def xhook_listed(self, req, l): return self.many(req, l, self.xhook_view)
    def xhook_gone(self, req, w): return R(204)
