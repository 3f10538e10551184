"""11 An old mail house: Basic with the key as the user, PascalCase, {"Count","Data","Total"}, "Messages" with "Status": "success" or "error", IsExcludedFromCampaigns, states in upper case, "false" as text, numbers as ids."""
from core import *


class S(Style):
    name = "mailhouse"
    seq_ids = True
    batch_member = "Messages"
    created = 200

    def mail_key(self, h, q):
        a = h.get("Authorization", "")
        try:
            user, _, _ = base64.b64decode(a[6:]).decode().partition(":")
        except ValueError:
            return None
        return user if a.startswith("Basic ") else None

    def no(self, status, text, **more): return R(status, {"ErrorMessage": text, "StatusCode": status, "ErrorInfo": "", **more})
    def no_route(self, req): return self.no(404, "Object not found")
    def no_method(self, req): return self.no(405, "Method not allowed")
    def unauthorized(self, req, key): return R(401, {"ErrorMessage": "API key authentication/authorization failure.", "StatusCode": 401}, {"WWW-Authenticate": 'Basic realm="Provide an apiKey"'})
    def forbidden(self, req, scope): return self.no(401, "The API key is restricted: operation not allowed")
    def xforbidden(self, req): return self.xerror(403, "forbidden", "not allowed")
    def limited(self, req, wait): return R(429, {"ErrorMessage": "Too many requests", "StatusCode": 429}, {"RateLimit": "\"default\";r=0;t=1"})
    def bad_type(self, req): return self.no(400, "JSON expected")
    def invalid(self, req, errs): return self.no(400, "Invalid input", ErrorRelatedTo=[f for f, c, m in errs], Errors=[{"ErrorRelatedTo": [f], "ErrorMessage": m} for f, c, m in errs])
    def not_found(self, req, kind, id): return self.no(404, "Object not found")
    def unverified(self, req, d): return self.no(400, "Sender %s is not validated" % d)
    def not_cancellable(self, req, e): return self.no(400, "Not cancellable")
    def duplicate(self, req, c): return self.no(400, "Contact already exists")

    def ev(self, e): return {"MessageID": int(e["id"]), "From": e["req"]["from"], "To": [{"Email": t} for t in e["to"]], "Subject": e["req"]["subject"], "MessageStatus": self.status(e).upper(), "ArrivedAt": iso(e["created"], False), "ScheduledAt": iso(e["at"], False) if e["at"] else ""}
    def email_accepted(self, req, e): return R(200, {"Messages": [{"Status": "success", "To": [{"Email": t, "MessageID": int(e["id"]), "MessageUUID": str(uuid.uuid4())} for t in e["to"]], "MessageID": int(e["id"])}]})
    def email_view(self, req, e): return R(200, {"Count": 1, "Data": [self.ev(e)], "Total": 1})
    def email_cancelled(self, req, e): return R(200, b"OK", ctype="text/html")
    def batch_read(self, req): return self.batch_at(req)
    def batch_do(self, req, items):
        out = []
        for j in items:
            er = self.item_errors(j)
            if er: out.append({"Status": "error", "Errors": [{"ErrorIdentifier": str(uuid.uuid4()), "ErrorCode": "mj-0013", "StatusCode": 400, "ErrorMessage": er[0][2]}]})
            else: out.append({"Status": "success", "CustomID": "", "MessageID": int(self.accept(j)["id"])})
        return R(200, {"Messages": out})

    def data(self, req, l, view):
        p, n = self.pages(req, 1, 10, 1000, True)
        d = [view(x) for x in l[(p - 1) * n:p * n]]
        return R(200, {"Count": len(d), "Data": d, "Total": len(l)})
    def one(self, view, status=201): return R(status, {"Count": 1, "Data": [view], "Total": 1})
    def a(self, a): return {"ID": int(a["id"]), "Name": a["name"], "IsDeleted": False, "CreatedAt": iso(a["created"], False)}
    def audience_created(self, req, a): return self.one(self.a(a))
    def audience_listed(self, req, l): return self.data(req, l, self.a)
    def audience_view(self, req, a): return self.one(self.a(a), 200)
    def c(self, c): return {"ID": int(c["id"]), "Email": c["email"], "Name": c["name"] or "", "Metadata": c["metadata"], "Topics": c["topics"], "IsExcludedFromCampaigns": "false" if c["subscribed"] else "true"}
    def contact_created(self, req, c, old): return self.one(self.c(c))
    def contact_listed(self, req, l, aid): return self.data(req, l, self.c)
    def contact_updated(self, req, c): return self.one(self.c(c), 200)

    def dv(self, d): return {"ID": int(d["id"]), "Name": d["name"], **self.flags(d)}
    def domain_created(self, req, d):
        return R(201, {"Count": 1, "Data": [{**self.dv(d), "MX": {"Host": "@", "Value": "mx.mail.test", "Priority": 10}, "SPF": {"Host": "@", "Value": "v=spf1 include:mail.test ~all"}, "DKIM": {"Host": "mh._domainkey", "Value": "v=DKIM1; p=MIIB"}, "DMARC": {"Host": "_dmarc", "Value": "v=DMARC1; p=none"}}], "Total": 1})
    def domain_listed(self, req, l): return self.data(req, l, self.dv)
    def domain_checked(self, req, d): return self.one(self.flags(d), 200)
    def domain_gone(self, req, d): return R(200, {"ok": True})

    def w(self, w): return {"ID": int(w["id"]), "Url": w["url"], "Events": w["events"], "Active": w["active"]}
    def webhook_created(self, req, w): return self.one({**self.w(w), "SigningSecret": w["secret"]})
    def webhook_listed(self, req, l): return self.data(req, l, self.w)
    def webhook_updated(self, req, w): return self.one(self.w(w), 200)
    def webhook_tested(self, req, w, code): return self.one({"ID": 201, "ResponseStatusCode": str(code)}, 200)
    def delivery(self, ev, e):
        return json.dumps([{"event": ev, "time": int(now()), "MessageID": int(e["id"]), "Message_GUID": str(uuid.uuid4()), "email": e["to"][0]}]).encode(), {"Content-Type": "application/json"}

    def xhook_created(self, req, w): return R(201, self.xhook_view(w, True))
    def xhook_listed(self, req, l): return R(200, {"Count": len(l), "Data": [self.xhook_view(w) for w in l], "Total": len(l)})
    def xhook_gone(self, req, w): return R(200, b"OK", ctype="text/plain")
