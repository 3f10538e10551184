"""9 A chat platform's team: everything in {"ok", "result"}, {"ok": false, "error_code", "description"}, verbs for answers, `messageId`, cursors with "more", consent for opt-outs."""
from core import *


class S(Style):
    name = "chatty/2"
    batch_member = "messages"
    scheduled_status, cancelled_status = "scheduled", "withdrawn"

    def mail_key(self, h, q):
        return h.get("X-Access-Token")

    def ok(self, result, status=200, **h): return R(status, {"ok": True, "result": result}, h)
    def no(self, status, text, **parameters): return R(status, {"ok": False, "error_code": status, "description": text, **({"parameters": parameters} if parameters else {})})
    def no_route(self, req): return self.no(404, "Not Found")
    def no_method(self, req): return self.no(405, "Method Not Allowed")
    def unauthorized(self, req, key): return self.no(401, "Unauthorized")
    def forbidden(self, req, scope): return self.no(403, "Forbidden: the token has no right %s" % scope)
    def xforbidden(self, req): return self.xerror(403, "forbidden", "Forbidden")
    def limited(self, req, wait): return self.no(429, "Too Many Requests: retry after 1", retry_after=1)
    def bad_type(self, req): return self.no(415, "Bad Request: JSON expected")
    def invalid(self, req, errs): return self.no(400, "Bad Request: " + "; ".join("%s: %s" % (f or "body", m) for f, c, m in errs))
    def not_found(self, req, kind, id): return self.no(404, "Bad Request: %s not found" % kind)
    def unverified(self, req, d): return self.no(403, "Forbidden: domain %s is not verified" % d)
    def not_cancellable(self, req, e): return self.no(409, "Conflict: too late")
    def duplicate(self, req, c): return self.no(409, "Conflict: contact exists")

    def ev(self, e): return {"messageId": e["id"], "from": e["req"]["from"], "to": e["to"], "subject": e["req"]["subject"], "delivery": {"state": self.status(e).upper(), "attempts": 1}, "date": int(e["created"]), "sendDate": int(e["at"]) if e["at"] else 0}
    def email_accepted(self, req, e): return self.ok({"messageId": e["id"], "text": "Queued. Thank you."}, 202)
    def email_view(self, req, e): return self.ok({"message": self.ev(e)})
    def email_cancelled(self, req, e): return self.ok(True)
    def batch_read(self, req): return self.batch_at(req)
    def batch_do(self, req, items):
        out = []
        for n, j in enumerate(items):
            er = self.item_errors(j)
            if er: out.append({"index": n, "status": 400, "description": er[0][2]})
            else: out.append({"index": n, "status": 202, "messageId": self.accept(j)["id"], "message": "Queued. Thank you."})
        return self.ok({"outcomes": out, "accepted": sum(o["status"] == 202 for o in out)})

    def part(self, req, l, view):
        start = int(base64.b64decode(req.query["cursor"][0])) if "cursor" in req.query else 0
        if "page" in req.query:
            page, size = self.pages(req, 1, 12, 100, True); start = (page - 1) * size
        size = int(req.query.get("pageSize", ["12"])[0])
        more = start + size < len(l)
        tail = {"next_cursor": base64.b64encode(str(start + size).encode()).decode()} if more else {}
        return self.ok({"items": [view(x) for x in l[start:start + size]], "more": more, **tail})
    def a(self, a): return {"id": a["id"], "name": a["name"], "date": int(a["created"])}
    def audience_created(self, req, a): return self.ok(self.a(a), 201)
    def audience_listed(self, req, l): return self.part(req, l, self.a)
    def audience_view(self, req, a): return self.ok(self.a(a))
    def c(self, c): return {"id": c["id"], "email": c["email"], **({"name": c["name"]} if c["name"] else {}), "attributes": c["metadata"], "topics": c["topics"], "consent": "opted_in" if c["subscribed"] else "opted_out"}
    def contact_created(self, req, c, old): return self.ok(self.c(c), 201)
    def contact_listed(self, req, l, aid): return self.part(req, l, self.c)
    def contact_updated(self, req, c): return self.ok(self.c(c))

    def dv(self, d): return {"id": d["id"], "name": d["name"], "checks": self.flags(d)}
    def domain_created(self, req, d):
        r = lambda t, n, v, **k: {"recordType": t, "recordName": n, "recordValue": v, **k}
        return self.ok({"domain": self.dv(d), "dns": {"publish": [r("MX", "@", "mx.mail.test", priority=10), r("TXT", "@", "v=spf1 include:mail.test ~all"), r("TXT", "k1._domainkey", "v=DKIM1; p=MIIB"), r("TXT", "_dmarc", "v=DMARC1; p=none")]}}, 201)
    def domain_listed(self, req, l): return self.part(req, l, self.dv)
    def domain_checked(self, req, d): return self.ok({"id": d["id"], "took": 212, "checks": self.flags(d)})
    def domain_gone(self, req, d): return R(200, {"ok": True})

    def w(self, w): return {"id": w["id"], "url": w["url"], "events": w["events"], "active": w["active"]}
    def webhook_created(self, req, w): return self.ok({"webhook": self.w(w), "signingSecret": w["secret"]}, 201)
    def webhook_listed(self, req, l): return self.part(req, l, self.w)
    def webhook_updated(self, req, w): return self.ok(self.w(w))
    def webhook_tested(self, req, w, code): return self.ok({"id": 200, "took": 212, "response": {"code": code}})
    def delivery(self, ev, e):
        return json.dumps([{"update_id": str(uuid.uuid4()), "kind": ev, "date": int(now()), "message": self.ev(e)}]).encode(), {"Content-Type": "application/json", "X-Update": ev}

    def xhook_created(self, req, w): return R(201, self.xhook_view(w, True))
    def xhook_listed(self, req, l): return self.ok({"items": [self.xhook_view(w) for w in l]})
    def xhook_gone(self, req, w): return self.ok(True)
