"""2 JSON:API: data/type/id/attributes, relationships, included, meta, links, errors[] with source.pointer; the key by HTTP Basic (user "api").

Variants: MEMBERS=dash (undocumented attributes dasherized), LINKS=full|object (default: path-absolute), LISTS=paged (every list, not
only the documented one), CTYPE=json, BATCH_STATUS=200, CANCEL=meta|204."""
from core import *

TYPES = {"email": "emails", "audience": "audiences", "contact": "contacts", "domain": "domains", "webhook": "webhooks"}


class S(Team):
    name = "puma"
    batch_member = "data"
    created = 201
    page_size, page_most, page_clamp = 25, 100, False
    xfail = {"code": "unreadable", "detail": "The document could not be read."}

    def mail_key(self, h, q):
        a = h.get("Authorization", "")
        if not a.lower().startswith("basic "):
            return None
        try:
            user, _, key = base64.b64decode(a[6:].strip(), validate=True).decode().partition(":")
        except ValueError:
            return ""
        return key if user == "api" else ""

    def common(self, req):
        h = {"X-Request-Id": req.id, "Vary": "Accept"}
        if self.rate:
            h.update({"RateLimit-Policy": '"default";q=%d;w=1' % self.rate, "RateLimit": '"default";r=%d;t=1' % (req.remaining or 0)})
        return h

    # --- documents
    def top(self, status, body, **h):
        return R(status, {**body, "jsonapi": {"version": "1.1"}}, h, "application/json" if env("CTYPE") == "json" else "application/vnd.api+json")

    def k(self, name):
        return re.sub("([A-Z])", lambda m: "-" + m.group(1).lower(), name) if env("MEMBERS") == "dash" else name

    def url(self, req, path):
        return "http://%s%s" % (req.headers.get("Host"), path) if env("LINKS") == "full" else path

    def link(self, req, path):
        return {"href": path} if env("LINKS") == "object" else self.url(req, path)

    def res(self, req, kind, id, attrs, self_link=True, **more):
        doc = attrs.pop("doc", {})                  # documented names stay as they are
        r = {"type": TYPES.get(kind, kind), "id": id, "attributes": {**doc, **{self.k(k): v for k, v in attrs.items()}}, **more}
        if self_link:
            r["links"] = {"self": self.link(req, "/api/v1/%s/%s" % (r["type"], id))}
        return r

    def one(self, req, status, r, **more):
        h = {"Location": self.url(req, "/api/v1/%s/%s" % (r["type"], r["id"]))} if status == 201 else {}
        return self.top(status, {"data": r, **more}, **h)

    def many(self, req, l, view, paged=False):
        if not paged and env("LISTS") != "paged":
            return self.top(200, {"data": [view(req, x) for x in l], "links": {"self": self.link(req, req.path)}, "meta": {"total": len(l)}})
        d, p, n = self.cut(req, l)
        last = max(1, -(-len(l) // n))
        u = lambda i: self.link(req, req.path + "?page=%d&pageSize=%d" % (i, n))
        return self.top(200, {"data": [view(req, x) for x in d],
                              "links": {"self": u(p), "first": u(1), "last": u(last), "prev": u(p - 1) if p > 1 else None, "next": u(p + 1) if p < last else None},
                              "meta": {"page": {"number": p, "size": n, "total": len(l), self.k("totalPages"): last}}})

    # --- errors
    def e(self, s, code, title, detail=None, pointer=None, param=None):
        x = {"status": str(s), "code": code, "title": title, "detail": detail or title}
        if pointer is not None:
            x["source"] = {"pointer": pointer}
        if param:
            x["source"] = {"parameter": param}
        return x

    def err(self, *errors, **h):
        return self.top(int(errors[0]["status"]), {"errors": list(errors)}, **h)

    def pointer(self, field, at="/data/attributes"):
        return "/data" if not field and at == "/data/attributes" else at + ("/" + field.replace(".", "/") if field else "")

    def no_route(self, req): return self.err(self.e(404, "route_not_found", "Not Found", "There is nothing at %s." % req.path))
    def no_method(self, req): return self.err(self.e(405, "method_not_allowed", "Method Not Allowed"))
    def unauthorized(self, req, key): return self.err(self.e(401, "unauthenticated", "Unauthorized", "The API key is missing or not known."), **{"WWW-Authenticate": 'Basic realm="api"'})
    def forbidden(self, req, scope): return self.err(self.e(403, "insufficient_scope", "Forbidden", "The key lacks the scope %s." % scope))
    def xforbidden(self, req): return self.xerror(403, "forbidden", "The key's scope is extract_only.")
    def limited(self, req, wait): return self.err(self.e(429, "rate_limited", "Too Many Requests"), **{"Retry-After": "1"})
    def bad_type(self, req): return self.err(self.e(415, "unsupported_media_type", "Unsupported Media Type"))
    def bad(self, errs, at="/data/attributes"):
        return [self.e(422, c if c != "type" else "invalid_type", "Invalid parameter" if f in ("page", "pageSize") else "Invalid attribute", m,
                       *([None, f] if f in ("page", "pageSize") else [self.pointer(f, at)])) for f, c, m in errs]
    def invalid(self, req, errs):
        if errs[0][1] == "json":
            return self.err(self.e(400, "malformed", "Bad Request", errs[0][2], ""))
        if errs[0][0] in ("page", "pageSize"):
            return self.err(*[dict(x, status="400") for x in self.bad(errs)])
        if req.op == "email_batch" and errs[0][0] == self.batch_member:
            return self.err(*self.bad([("", c, m) for f, c, m in errs], "/" + self.batch_member.replace(".", "/") if self.batch_member else ""))
        return self.err(*self.bad(errs))
    def not_found(self, req, kind, id): return self.err(self.e(404, "not_found", "Record not found", "The record identified by %s could not be found." % id))
    def unverified(self, req, d): return self.err(self.e(403, "domain_not_verified", "Domain not verified", "The domain %s is not verified." % d, "/data/attributes/from"))
    def idem_mismatch(self, req): return self.err(self.e(422, "idempotency_mismatch", "This Idempotency-Key came with another body"))
    def not_cancellable(self, req, e): return self.err(self.e(409, "not_cancellable", "Conflict", "The email is %s and cannot be cancelled." % self.status(e), "/data/attributes/status"))
    def duplicate(self, req, c): return self.err(dict(self.e(409, "taken", "Conflict", "The address is already in this audience.", "/data/attributes/email"), meta={"existing": {"type": "contacts", "id": c["id"]}}))

    # --- e-mails
    def t(self, x): return iso(x) if x else None
    def ev(self, req, e):
        q = e["req"]
        ar = lambda v: [] if v is None else [v] if isinstance(v, str) else v
        return self.res(req, "email", e["id"], {
            "doc": {"from": q["from"], "to": e["to"], "subject": q["subject"], "html": q.get("html"), "text": q.get("text"), "cc": ar(q.get("cc")), "bcc": ar(q.get("bcc")), "replyTo": ar(q.get("replyTo")),
                    "tags": q.get("tags") or {}, "scheduledAt": self.t(e["at"]), "templateId": q.get("templateId")},
            "status": self.status(e), "attachmentCount": len(q.get("attachments") or []), "createdAt": self.t(e["created"]), "cancelledAt": self.t(e["cancelled"])})
    def email_accepted(self, req, e): return self.one(req, int(env("CREATED", "202")), self.ev(req, e))
    def email_view(self, req, e): return self.one(req, 200, self.ev(req, e))
    def email_cancelled(self, req, e):
        if env("CANCEL") == "204":
            return R(204)
        return self.top(200, {"meta": {"cancelled": True}}) if env("CANCEL") == "meta" else self.one(req, 200, self.ev(req, e))
    def batch_do(self, req, items):
        out = []
        for i, j in enumerate(items):
            er = self.item_errors(j)
            if er and er[0][1] == "unverified":
                out.append({"errors": [self.e(403, "domain_not_verified", "Domain not verified", er[0][2], "/data/%d/from" % i)]})
            elif er:
                out.append({"errors": self.bad(er, "/data/%d" % i)})
            else:
                out.append({"data": self.ev(req, self.accept(j))})
        ok = sum("data" in x for x in out)
        return self.top(int(env("BATCH_STATUS", "207")), {"results": out, "meta": {"total": len(out), "accepted": ok, "rejected": len(out) - ok}})

    # --- audiences and contacts
    def a(self, req, a):
        return self.res(req, "audience", a["id"], {"doc": {"name": a["name"]}, "createdAt": self.t(a["created"])},
                        relationships={"contacts": {"links": {"related": self.link(req, "/api/v1/audiences/%s/contacts" % a["id"])}}})
    def audience_created(self, req, a): return self.one(req, self.created, self.a(req, a))
    def audience_listed(self, req, l): return self.many(req, l, self.a)
    def audience_view(self, req, a): return self.one(req, 200, self.a(req, a))
    def c(self, req, c):
        return self.res(req, "contact", c["id"], {"doc": {k: c[k] for k in ("email", "name", "metadata", "topics", "subscribed")}, "createdAt": self.t(c["created"])}, False,
                        relationships={"audience": {"data": {"type": "audiences", "id": c["audience"]}}})
    def contact_created(self, req, c, old): return self.top(200 if old else self.created, {"data": self.c(req, c)})
    def contact_listed(self, req, l, aid): return self.many(req, l, self.c, True)
    def contact_updated(self, req, c): return self.top(200, {"data": self.c(req, c)})

    # --- domains: the records to publish are resources of their own, side-loaded
    def dv(self, req, d, **more): return self.res(req, "domain", d["id"], {"doc": {"name": d["name"], **self.flags(d)}, "createdAt": self.t(d["created"])}, **more)
    def domain_created(self, req, d):
        recs = [("mx", "MX", d["name"], "mx.mail.test", 10), ("spf", "TXT", d["name"], "v=spf1 include:mail.test ~all", None),
                ("dkim", "TXT", "s1._domainkey." + d["name"], "v=DKIM1; k=rsa; p=MIIBIjANBg", None), ("dmarc", "TXT", "_dmarc." + d["name"], "v=DMARC1; p=none", None)]
        inc = [self.res(req, "dns-records", "%s-%s" % (d["id"], p), {"purpose": p, "recordType": t, "host": h, "value": v, "priority": pr, "ttl": 3600}, False) for p, t, h, v, pr in recs]
        return self.one(req, self.created, self.dv(req, d, relationships={self.k("dnsRecords"): {"data": [{"type": x["type"], "id": x["id"]} for x in inc]}}), included=inc)
    def domain_listed(self, req, l): return self.many(req, l, self.dv)
    def domain_checked(self, req, d): return self.one(req, 200, self.dv(req, d))
    def domain_gone(self, req, d): return R(200, {"ok": True})

    # --- webhooks
    def w(self, req, w, **doc): return self.res(req, "webhook", w["id"], {"doc": {"url": w["url"], "events": w["events"], "active": w["active"], **doc}, "createdAt": self.t(w["created"])}, False)
    def webhook_created(self, req, w): return self.top(self.created, {"data": self.w(req, w, signingSecret=w["secret"])})
    def webhook_listed(self, req, l): return self.many(req, l, self.w)
    def webhook_updated(self, req, w): return self.top(200, {"data": self.w(req, w)})
    def webhook_tested(self, req, w, code):
        return self.top(200, {"data": self.res(req, "webhook-tests", str(uuid.uuid4()), {"httpStatus": code or None, "delivered": 200 <= code < 300}, False,
                                               relationships={"webhook": {"data": {"type": "webhooks", "id": w["id"]}}})})
    def delivery(self, ev, e):
        r = Req()
        r.headers = {}
        b = {"data": {"type": "events", "id": str(uuid.uuid4()), "attributes": {"name": ev, self.k("occurredAt"): iso(now())}, "relationships": {"email": {"data": {"type": "emails", "id": e["id"]}}}},
             "included": [{k: v for k, v in self.ev(r, e).items() if k != "links"}]}
        return json.dumps(b, ensure_ascii=False).encode(), {"Content-Type": "application/vnd.api+json", "Event-Name": ev}

    # --- extraction service
    def x(self, w): return {"type": "webhooks", "id": w["id"], "attributes": {k: v for k, v in self.xhook_view(w).items() if k != "id"}}
    def xhook_created(self, req, w): return R(self.created, self.xhook_view(w, True))
    def xhook_listed(self, req, l): return self.top(200, {"data": [self.x(w) for w in l], "meta": {"total": len(l)}})
    def xhook_gone(self, req, w): return R(204)
