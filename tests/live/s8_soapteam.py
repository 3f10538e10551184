"""8 A government's SOAP team doing JSON: {"Response":{"Header":{"TransactionId","ReturnCode":"0000","ReturnText":"OK"},"Body":{…}}}, faults,
a list of one is the object itself, "Y"/"N", numbers as strings, dd.mm.yyyy HH:MM:SS, zero-padded ids; the key in X-Auth-Token.

Documented resource fields (name, email, metadata, topics, url, events, active, the flags, signingSecret) keep their spelling and type;
where the document gives the whole answer ({ok: true}, GET /v1/me, a registered endpoint) there is no envelope.

Variants: CASE=pascal (documented fields too, save the flags, signingSecret and ok), COLLAPSE=no (lists stay lists), EMPTY=string ("" for an
empty list; default null), FAULT=wrapped (faults within the Response, ReturnCode 4711 and so on), OK=body (the domain's {ok: true} within Body),
OPTOUT=both (`subscribed` beside OptOutIndicator), STATUS=lower (the documented words), CHARSET=latin1, BOM=1, LISTS=paged, CANCEL=full."""
from core import *
from email.utils import formatdate

CODES = {400: "4700", 401: "4001", 403: "4003", 404: "4404", 405: "4405", 409: "4409", 415: "4415", 422: "4711", 429: "4429"}
WORDS = {"queued": "ACCEPTED", "sending": "IN_PROCESS", "scheduled": "ACCEPTED"}


class S(Team):
    name = "Apache-Coyote/1.1"
    batch_member = "emails"
    page_size, page_most, page_clamp = 25, 100, False
    xfail = {"FaultCode": "4711", "FaultString": "Document not readable"}

    def new_id(self, kind): return "%010d" % next(self.ids)
    def mail_key(self, h, q): return h.get("X-Auth-Token")
    def common(self, req): return {"X-Transaction-Id": req.id.upper(), "Pragma": "no-cache", "Expires": "0"}

    def write(self, http, req, a):
        if isinstance(a.body, (dict, list)):
            latin = env("CHARSET") == "latin1"
            b = json.dumps(a.body, ensure_ascii=False, indent=1).encode("latin-1" if latin else "utf-8", "xmlcharrefreplace")
            a = R(a.status, (b"\xef\xbb\xbf" if env("BOM") else b"") + b, a.headers, "application/json;charset=" + ("ISO-8859-1" if latin else "UTF-8"))
        write(self, http, req, a)

    # --- envelope
    def wrap(self, req, body, status=200, code="0000", text="OK"):
        return R(status, {"Response": {"Header": {"TransactionId": req.id.upper(), "ReturnCode": code, "ReturnText": text, "Timestamp": self.t(now())}, "Body": body}})

    def list(self, l):
        """As a mapper from XML makes it: no member nothing, one member itself, several a list."""
        l = list(l)
        if env("COLLAPSE") == "no":
            return l
        return ("" if env("EMPTY") == "string" else None) if not l else l[0] if len(l) == 1 else l

    def yn(self, b): return "Y" if b else "N"
    def t(self, x): return datetime.fromtimestamp(x, timezone.utc).strftime("%d.%m.%Y %H:%M:%S") if x else None
    def some(self, d): return {k: v for k, v in d.items() if v is not None}
    def named(self, x, *names): return {self.doc(k): x[k] for k in names if x[k] is not None}

    # --- faults
    def fault(self, req, status, who, text, detail=None, code=None, **h):
        code = code or CODES[status]
        f = {"Fault": self.some({"FaultCode": "%s.%s" % (who, code), "FaultString": text, "Detail": detail})}
        r = self.wrap(req, f, status, code, text) if env("FAULT") == "wrapped" else R(status, f)
        r.headers.update(h)
        return r

    def no_route(self, req): return R(404, b"<html><head><title>Apache Tomcat/8.5.100 - Error report</title></head><body><h1>HTTP Status 404</h1></body></html>", ctype="text/html;charset=utf-8")
    def no_method(self, req): return self.fault(req, 405, "Client", "Operation not supported")
    def unauthorized(self, req, key): return self.fault(req, 401, "Client", "Authentication failed", {"Reason": "TOKEN_MISSING" if key is None else "TOKEN_UNKNOWN"})
    def forbidden(self, req, scope): return self.fault(req, 403, "Client", "Authorization failed", {"RequiredRole": scope})
    def xforbidden(self, req): return self.xerror(403, "not_authorized", "The key is not authorized for this operation.")
    def limited(self, req, wait): return self.fault(req, 429, "Server", "Too many requests", **{"Retry-After": formatdate(now() + 1, usegmt=True)})
    def bad_type(self, req): return self.fault(req, 415, "Client", "Content type not supported")
    def invalid(self, req, errs):
        if errs[0][1] == "json":
            return self.fault(req, 400, "Client", "Message not well-formed", {"Reason": errs[0][2]})
        return self.fault(req, 422, "Client", "Validation failed", {"FieldError": self.list({"FieldName": f or "body", "ErrorText": m} for f, c, m in errs)})
    def not_found(self, req, kind, id): return self.fault(req, 404, "Client", "%s %s does not exist" % (kind.capitalize(), id))
    def unverified(self, req, d): return self.fault(req, 403, "Client", "Sender domain not verified", {"Domain": d}, "4712")
    def idem_mismatch(self, req): return self.fault(req, 409, "Client", "Idempotency-Key used with another message")
    def not_cancellable(self, req, e): return self.fault(req, 409, "Client", "Email cannot be cancelled", {"Status": self.word(e)}, "4713")
    def duplicate(self, req, c): return self.fault(req, 409, "Client", "Contact exists already", {"ContactId": c["id"]})

    # --- lists
    def many(self, req, outer, inner, l, view, page=False):
        if not page and env("LISTS") != "paged":
            x = self.list(view(v) for v in l)
            return self.wrap(req, {outer: {inner: x} if x or env("COLLAPSE") == "no" else x, "TotalRecords": str(len(l))})
        d, p, n = self.cut(req, l)
        x = self.list(view(v) for v in d)
        return self.wrap(req, {outer: {inner: x} if x or env("COLLAPSE") == "no" else x,
                               "PageInfo": {"PageNumber": str(p), "PageSize": str(n), "TotalPages": str(max(1, -(-len(l) // n))), "TotalRecords": str(len(l)), "MoreDataIndicator": self.yn(p * n < len(l))}})

    # --- e-mails
    def word(self, e):
        s = self.status(e)
        return s if env("STATUS") == "lower" else WORDS.get(s, s.upper())
    def ev(self, e):
        q = e["req"]
        ar = lambda v: None if v is None else self.list([v] if isinstance(v, str) else v)
        return self.some({"EmailId": e["id"], "Status": self.word(e), "From": q["from"], "To": self.list(e["to"]), "Cc": ar(q.get("cc")), "Bcc": ar(q.get("bcc")), "ReplyTo": ar(q.get("replyTo")), "Subject": q["subject"],
                          "ScheduledIndicator": self.yn(e["at"]), "ScheduledDateTime": self.t(e["at"]), "CreationDateTime": self.t(e["created"]), "CancellationDateTime": self.t(e["cancelled"]), "AttachmentCount": str(len(q.get("attachments") or []))})
    def email_accepted(self, req, e): return self.wrap(req, {"Email": self.ev(e)}, self.created)
    def email_view(self, req, e): return self.wrap(req, {"Email": self.ev(e)})
    def email_cancelled(self, req, e): return self.wrap(req, {"Email": self.ev(e)} if env("CANCEL") == "full" else None)
    def batch_do(self, req, items):
        out = []
        for i, j in enumerate(items):
            er = self.item_errors(j)
            r = {"SequenceNumber": str(i + 1), "ReturnCode": "0000", "ReturnText": "OK"}
            if er:
                r.update({"ReturnCode": "4712" if er[0][1] == "unverified" else "4711", "ReturnText": er[0][2], "FieldName": er[0][0]})
            else:
                e = self.accept(j)
                r.update({"EmailId": e["id"], "Status": self.word(e)})
            out.append(r)
        bad = sum(r["ReturnCode"] != "0000" for r in out)
        return self.wrap(req, {"Results": {"Result": self.list(out)}, "AcceptedCount": str(len(out) - bad), "RejectedCount": str(bad)}, code="0000" if not bad else "0001", text="OK" if not bad else "Completed with errors")

    # --- audiences and contacts
    def a(self, a): return {"AudienceId": a["id"], **self.named(a, "name"), "CreationDateTime": self.t(a["created"])}
    def audience_created(self, req, a): return self.wrap(req, {"Audience": self.a(a)}, self.created)
    def audience_listed(self, req, l): return self.many(req, "Audiences", "Audience", l, self.a)
    def audience_view(self, req, a): return self.wrap(req, {"Audience": self.a(a)})
    def c(self, c):
        return {"ContactId": c["id"], "AudienceId": c["audience"], **self.named(c, "email", "name", "metadata", "topics"), **(self.named(c, "subscribed") if env("OPTOUT") == "both" else {}),
                "OptOutIndicator": self.yn(not c["subscribed"]), "CreationDateTime": self.t(c["created"])}
    def contact_created(self, req, c, old): return self.wrap(req, {"Contact": self.c(c)}, self.created)
    def contact_listed(self, req, l, aid): return self.many(req, "Contacts", "Contact", l, self.c, True)
    def contact_updated(self, req, c): return self.wrap(req, {"Contact": self.c(c)})

    # --- domains
    def dv(self, d): return {"DomainId": d["id"], **self.named(d, "name"), **self.flags(d), "CreationDateTime": self.t(d["created"])}
    def domain_created(self, req, d):
        r = lambda p, typ, host, v, **k: {"RecordPurpose": p, "RecordType": typ, "RecordName": host, "RecordValue": v, "TimeToLive": "3600", **k}
        recs = [r("MX", "MX", d["name"], "mx.mail.test", Priority="10"), r("SPF", "TXT", d["name"], "v=spf1 include:mail.test ~all"), r("DKIM", "TXT", "sel1._domainkey." + d["name"], "v=DKIM1; k=rsa; p=MIIBIjANBg"), r("DMARC", "TXT", "_dmarc." + d["name"], "v=DMARC1; p=none")]
        return self.wrap(req, {"Domain": {**self.dv(d), "DnsRecords": {"DnsRecord": recs}}}, self.created)
    def domain_listed(self, req, l): return self.many(req, "Domains", "Domain", l, self.dv)
    def domain_checked(self, req, d): return self.wrap(req, {"Domain": self.dv(d)})
    def domain_gone(self, req, d): return self.wrap(req, {"ok": True}) if env("OK") == "body" else R(200, {"ok": True})

    # --- webhooks
    def w(self, w, **more): return {"WebhookId": w["id"], **self.named(w, "url", "events", "active"), "CreationDateTime": self.t(w["created"]), **more}
    def webhook_created(self, req, w): return self.wrap(req, {"Webhook": self.w(w, signingSecret=w["secret"])}, self.created)
    def webhook_listed(self, req, l): return self.many(req, "Webhooks", "Webhook", l, self.w)
    def webhook_updated(self, req, w): return self.wrap(req, {"Webhook": self.w(w)})
    def webhook_tested(self, req, w, code): return self.wrap(req, {"WebhookTest": {"WebhookId": w["id"], "HttpReturnCode": "%03d" % code, "ReachableIndicator": self.yn(code)}})
    def delivery(self, ev, e):
        b = {"Notification": {"Header": {"TransactionId": secrets.token_hex(8).upper(), "MessageType": ev, "CreationDateTime": self.t(now())}, "Body": {"Email": self.ev(e)}}}
        return json.dumps(b, indent=2, ensure_ascii=False).replace("\n", "\r\n").encode() + b"\r\n", {"Content-Type": "application/json;charset=UTF-8", "X-Message-Type": ev, "User-Agent": "Apache-HttpClient/4.5.14 (Java/1.8.0_412)"}

    # --- extraction service
    def xhook_created(self, req, w): return R(self.created, self.xhook_view(w, True))
    def xhook_listed(self, req, l): return self.many(req, "WebhookEndpoints", "WebhookEndpoint", l, self.xhook_view)
    def xhook_gone(self, req, w): return self.wrap(req, None)
