"""10 API Platform: JSON-LD, hydra:member and hydra:view, `@id` as a path beside a uuid, violations, `Authorization: ApiKey`, optedOut, capitalized states."""
from core import *


class S(Style):
    name = "symfony"
    batch_member = "emails"
    scheduled_status = "pending"

    def mail_key(self, h, q):
        a = h.get("Authorization", "")
        return a[7:] if a.startswith("ApiKey ") else None

    def ld(self, status, kind, fields, **h): return R(status, {"@context": "/contexts/" + kind, "@type": kind, **fields}, h, ctype="application/ld+json; charset=utf-8")
    def no(self, status, text, **more): return self.ld(status, "hydra:Error", {"hydra:title": "An error occurred", "hydra:description": text, **more})
    def no_route(self, req): return self.no(404, "No route found")
    def no_method(self, req): return self.no(405, "Method Not Allowed")
    def unauthorized(self, req, key): return R(401, {"code": 401, "message": "Invalid credentials."}, {"WWW-Authenticate": 'ApiKey realm="api"'})
    def forbidden(self, req, scope): return self.no(403, "Access Denied.")
    def xforbidden(self, req): return self.xerror(403, "forbidden", "Access Denied.")
    def limited(self, req, wait): return R(429, None, {"X-RateLimit-Reset": str(int(now()) + 1)})
    def bad_type(self, req): return self.no(415, "The content-type is not supported.")
    def invalid(self, req, errs): return self.ld(422, "ConstraintViolationList", {"hydra:title": "An error occurred", "hydra:description": "\n".join("%s: %s" % (f, m) for f, c, m in errs), "violations": [{"propertyPath": f, "message": m, "code": c or None} for f, c, m in errs]})
    def not_found(self, req, kind, id): return self.no(404, "Not Found")
    def unverified(self, req, d): return self.no(422, "The sender %s is not allowed." % d)
    def not_cancellable(self, req, e): return self.no(409, "Not cancellable.")
    def duplicate(self, req, c): return self.invalid(req, [("email", "unique", "This value is already used.")])

    def at(self, kind, thing): return {"@id": "/api/v1/%s/%s" % (kind, thing["id"]), "@type": kind[:-1].capitalize(), "uuid": thing["id"]}
    def ev(self, e): return {**self.at("emails", e), "sender": e["req"]["from"], "recipients": e["to"], "subject": e["req"]["subject"], "currentStatus": self.status(e).capitalize(), "createdAt": iso(e["created"], False), "scheduledAt": iso(e["at"], False) if e["at"] else None}
    def email_accepted(self, req, e): return self.ld(201, "Email", self.ev(e), **{"Content-Location": "/api/v1/emails/" + e["id"]})
    def email_view(self, req, e): return self.ld(200, "Email", self.ev(e))
    def email_cancelled(self, req, e): return R(204)
    def batch_read(self, req): return self.batch_at(req)
    def batch_do(self, req, items):
        out = []
        for j in items:
            er = self.item_errors(j)
            out.append({"@type": "Refusal", "violations": [{"propertyPath": er[0][0], "message": er[0][2]}]} if er else self.ev(self.accept(j)))
        return self.ld(200, "Batch", {"hydra:member": out, "hydra:totalItems": len(out)})

    def collection(self, req, l, view):
        p, n = self.pages(req, 1, 10, 50, True)
        last = max(1, -(-len(l) // n)); u = "%s?page=%%d&pageSize=%d" % (req.path, n)
        look = {"@id": u % p, "hydra:first": u % 1, "hydra:last": u % last, **({"hydra:next": u % (p + 1)} if p < last else {})}
        return self.ld(200, "hydra:Collection", {"hydra:member": [view(x) for x in l[(p - 1) * n:p * n]], "hydra:totalItems": len(l), "hydra:view": look})
    def a(self, a): return {**self.at("audiences", a), "name": a["name"]}
    def audience_created(self, req, a): return self.ld(201, "Audience", self.a(a))
    def audience_listed(self, req, l): return self.collection(req, l, self.a)
    def audience_view(self, req, a): return self.ld(200, "Audience", self.a(a))
    def c(self, c): return {**self.at("contacts", c), "audience": "/api/v1/audiences/" + c["audience"], "email": c["email"], "name": c["name"], "customFields": [{"name": k, "value": v} for k, v in c["metadata"].items()] if env("PAIRS") else c["metadata"], "topics": c["topics"], "optedOut": not c["subscribed"]}
    def contact_created(self, req, c, old): return self.ld(201, "Contact", self.c(c))
    def contact_listed(self, req, l, aid): return self.collection(req, l, self.c)
    def contact_updated(self, req, c): return self.ld(200, "Contact", self.c(c))

    def dv(self, d): return {**self.at("domains", d), "name": d["name"], **self.flags(d)}
    def domain_created(self, req, d):
        r = lambda t, n, v, **k: {"@type": "DnsRecord", "rrType": t, "owner": n, "rdata": v, **k}
        return self.ld(201, "Domain", {**self.dv(d), "zone": [r("MX", "@", "10 mx.mail.test"), r("TXT", "@", "v=spf1 include:mail.test ~all"), r("TXT", "a._domainkey", "v=DKIM1; p=MIIB"), r("TXT", "_dmarc", "v=DMARC1; p=none")]})
    def domain_listed(self, req, l): return self.collection(req, l, self.dv)
    def domain_checked(self, req, d): return self.ld(200, "Domain", self.dv(d))
    def domain_gone(self, req, d): return R(200, {"ok": True})

    def w(self, w): return {**self.at("webhooks", w), "url": w["url"], "events": w["events"], "active": w["active"]}
    def webhook_created(self, req, w): return self.ld(201, "Webhook", {**self.w(w), "signingSecret": w["secret"]})
    def webhook_listed(self, req, l): return self.collection(req, l, self.w)
    def webhook_updated(self, req, w): return self.ld(200, "Webhook", self.w(w))
    def webhook_tested(self, req, w, code): return self.ld(200, "WebhookTest", {"elapsed": 200, "receivedStatus": code})
    def delivery(self, ev, e):
        return json.dumps({"@type": "Event", "identifier": str(uuid.uuid4()), "eventName": ev, "occurredAt": iso(now(), False), "subject": self.ev(e)}).encode(), {"Content-Type": "application/ld+json"}

    def xhook_created(self, req, w): return R(201, self.xhook_view(w, True))
    def xhook_listed(self, req, l): return R(200, {"hydra:member": [self.xhook_view(w) for w in l], "hydra:totalItems": len(l)})
    def xhook_gone(self, req, w): return R(204)
