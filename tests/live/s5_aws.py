"""5 AWS-like: PascalCase answers, {"Items":[…],"NextToken":…}, {"__type","message"} with x-amzn-ErrorType, epoch seconds as floats,
batch {"Successful","Failed"}, answers of actions nearly empty; the key in X-Api-Key.

Documented resource fields (name, email, metadata, topics, url, events, active, the flags, signingSecret) keep their spelling.

Variants: CASE=pascal (those too, save the flags, signingSecret and ok), NEXT=null (NextToken always there), THROTTLE=400 (ThrottlingException as
400), GATEWAY=1 (a wrong key is the gateway's {"message":"Forbidden"}), TYPE=coral (__type with a namespace), BODY=bare ({"Message"} only,
the type in the header), STATUS=upper, CTYPE=amz, DELIVERY=sns (the event as a JSON string within "Message"), CANCEL=full."""
from core import *


class S(Team):
    name = "Server"
    batch_member = "Entries"
    scheduled_status, cancelled_status = "scheduled", "canceled"
    page_size, page_most, page_clamp = 100, 1000, False

    def new_id(self, kind):
        if kind == "email":
            return "%016x-%s-000000" % (int(now() * 1000), uuid.uuid4())
        return {"audience": "aud", "contact": "con", "domain": "dom", "webhook": "whk", "xhook": "xwh"}[kind] + "-" + secrets.token_hex(8) + "7"

    def mail_key(self, h, q): return h.get("X-Api-Key")

    def common(self, req): return {"x-amzn-requestid": str(uuid.uuid4()), "x-amz-apigw-id": secrets.token_urlsafe(11) + "="}

    def ok(self, body, status=200): return R(status, body, ctype="application/x-amz-json-1.1" if env("CTYPE") == "amz" else "application/json")

    # --- errors
    def err(self, status, kind, message):
        t = "com.amazon.coral.service#" + kind if env("TYPE") == "coral" else kind
        r = self.ok({"Message": message} if env("BODY") == "bare" else {"__type": t, "message": message}, status)
        r.headers["x-amzn-ErrorType"] = kind + (":http://internal.amazon.test/coral/com.amazon.mail/" if env("TYPE") == "coral" else "")
        return r

    def no_route(self, req): return R(403, {"message": "Missing Authentication Token"}, {"x-amzn-ErrorType": "MissingAuthenticationTokenException"})
    def no_method(self, req): return self.no_route(req)
    def unauthorized(self, req, key):
        if env("GATEWAY"):
            return R(403, {"message": "Forbidden"}, {"x-amzn-ErrorType": "ForbiddenException"})
        return self.err(403, "MissingAuthenticationTokenException", "Missing Authentication Token") if key is None else self.err(403, "UnrecognizedClientException", "The security token included in the request is invalid.")
    def forbidden(self, req, scope):
        action = "".join(p.capitalize() for p in reversed(req.op.split("_")))
        return self.err(403, "AccessDeniedException", "User: arn:aws:iam::123456789012:user/app is not authorized to perform: mail:%s because no identity-based policy allows the mail:%s action" % (action, action))
    def xforbidden(self, req): return self.xerror(403, "access_denied", "The key is not authorized to perform this action.")
    def limited(self, req, wait): return self.err(400, "ThrottlingException", "Rate exceeded") if env("THROTTLE") == "400" else self.err(429, "TooManyRequestsException", "Too Many Requests")
    def bad_type(self, req): return self.err(415, "UnsupportedMediaTypeException", "Unsupported content type")
    def invalid(self, req, errs):
        if errs[0][1] == "json":
            return self.err(400, "SerializationException", "Unable to parse the request body")
        return self.err(400, "ValidationException", "%d validation error%s detected: %s" % (len(errs), "s" if len(errs) > 1 else "", "; ".join(self.says(f, c, m) for f, c, m in errs)))
    def says(self, f, c, m): return "Value%s at '%s' failed to satisfy constraint: %s" % (" null" if c == "required" else "", f or "body", "Member must not be null" if c == "required" else m)
    def not_found(self, req, kind, id): return self.err(404, "NotFoundException", "%s %s does not exist." % (kind.capitalize(), id))
    def unverified(self, req, d): return self.err(400, "MessageRejected", "Email address is not verified. The following identities failed the check in region EU-CENTRAL-1: %s" % req.json.get("from"))
    def idem_mismatch(self, req): return self.err(409, "IdempotentParameterMismatchException", "The request uses the same client token as a previous, but non-identical request.")
    def not_cancellable(self, req, e): return self.err(409, "ConflictException", "Message is in status %s and can't be canceled." % self.word(e))
    def duplicate(self, req, c): return self.err(400, "AlreadyExistsException", "Contact %s already exists in the list." % c["email"])

    # --- lists
    def many(self, req, l, view):
        d, p, n = self.cut(req, l)
        at = (p - 1) * n
        token = (req.query.get("NextToken") or req.query.get("nextToken") or [""])[0]
        if token:
            try:
                at = json.loads(base64.b64decode(token))["o"]
            except (ValueError, KeyError, TypeError):
                return self.xerror(400, "invalid_token", "The token is not valid.") if req.path.startswith("/v1/") else self.err(400, "InvalidNextTokenException", "The specified token is not valid.")
        b = {"Items": [view(x) for x in l[at:at + n]]}
        if at + n < len(l) or env("NEXT") == "null":
            b["NextToken"] = base64.b64encode(json.dumps({"v": 1, "o": at + n}).encode()).decode() if at + n < len(l) else None
        return self.ok(b)

    def some(self, d): return {k: v for k, v in d.items() if v is not None}
    def named(self, x, *names): return {self.doc(k): x[k] for k in names}
    def arn(self, kind, id): return "arn:aws:mail:eu-central-1:123456789012:%s/%s" % (kind, id)
    def t(self, x): return round(x, 3) if x else None

    # --- e-mails
    def word(self, e): return self.status(e).upper() if env("STATUS") == "upper" else self.status(e)
    def ev(self, e):
        q = e["req"]
        ar = lambda v: [] if v is None else [v] if isinstance(v, str) else v
        return self.some({"MessageId": e["id"], "FromEmailAddress": q["from"], "Destination": {"ToAddresses": e["to"], "CcAddresses": ar(q.get("cc")), "BccAddresses": ar(q.get("bcc"))}, "ReplyToAddresses": ar(q.get("replyTo")),
                          "Subject": q["subject"], "TemplateName": q.get("templateId"), "Status": self.word(e), "EmailTags": [{"Name": k, "Value": v} for k, v in (q.get("tags") or {}).items()],
                          "ScheduledTimestamp": self.t(e["at"]), "CreatedTimestamp": self.t(e["created"]), "CanceledTimestamp": self.t(e["cancelled"])})
    def email_accepted(self, req, e): return self.ok({"MessageId": e["id"]}, self.created)
    def email_view(self, req, e): return self.ok(self.ev(e))
    def email_cancelled(self, req, e): return self.ok(self.ev(e) if env("CANCEL") == "full" else {})
    def batch_do(self, req, items):
        good, bad = [], []
        for i, j in enumerate(items):
            er = self.item_errors(j)
            id = j.get("Id", str(i)) if isinstance(j, dict) else str(i)
            if er:
                code = "MessageRejected" if er[0][1] == "unverified" else "ValidationException"
                bad.append({"Id": id, "Code": code, "Message": er[0][2] if code == "MessageRejected" else self.says(*er[0]), "SenderFault": True})
            else:
                good.append({"Id": id, "MessageId": self.accept(j)["id"]})
        return self.ok({"Successful": good, "Failed": bad})

    # --- audiences and contacts
    def a(self, a): return {"AudienceId": a["id"], "Arn": self.arn("audience", a["id"]), **self.named(a, "name"), "CreatedTimestamp": self.t(a["created"])}
    def audience_created(self, req, a): return self.ok(self.a(a), self.created)
    def audience_listed(self, req, l): return self.many(req, l, self.a)
    def audience_view(self, req, a): return self.ok(self.a(a))
    def c(self, c): return self.some({"ContactId": c["id"], "AudienceId": c["audience"], **self.named(c, "email", "name", "metadata", "topics"), "UnsubscribeAll": not c["subscribed"], "CreatedTimestamp": self.t(c["created"])})
    def contact_created(self, req, c, old): return self.ok(self.c(c), self.created)
    def contact_listed(self, req, l, aid): return self.many(req, l, self.c)
    def contact_updated(self, req, c): return self.ok(self.c(c))

    # --- domains: records as Route 53 has them
    def dv(self, d): return {"DomainId": d["id"], "Arn": self.arn("domain", d["id"]), **self.named(d, "name"), **self.flags(d), "CreatedTimestamp": self.t(d["created"])}
    def domain_created(self, req, d):
        r = lambda host, typ, v: {"Name": host + d["name"], "Type": typ, "TTL": 1800, "ResourceRecords": [{"Value": v}]}
        return self.ok({**self.dv(d), "ResourceRecordSets": [r("", "MX", "10 inbound-smtp.mail.test"), r("", "TXT", '"v=spf1 include:mail.test ~all"'), r("k1._domainkey.", "TXT", '"v=DKIM1; p=MIIBIjANBg"'), r("_dmarc.", "TXT", '"v=DMARC1; p=none"')]}, self.created)
    def domain_listed(self, req, l): return self.many(req, l, self.dv)
    def domain_checked(self, req, d): return self.ok({"DomainId": d["id"], **self.flags(d), "LastCheckedTimestamp": self.t(now())})
    def domain_gone(self, req, d): return self.ok({"ok": True})

    # --- webhooks
    def w(self, w): return {"WebhookId": w["id"], "Arn": self.arn("webhook", w["id"]), **self.named(w, "url", "events", "active"), "CreatedTimestamp": self.t(w["created"])}
    def webhook_created(self, req, w): return self.ok({**self.w(w), "signingSecret": w["secret"]}, self.created)
    def webhook_listed(self, req, l): return self.many(req, l, self.w)
    def webhook_updated(self, req, w): return self.ok(self.w(w))
    def webhook_tested(self, req, w, code): return self.ok({"WebhookId": w["id"], "EndpointStatusCode": code, "Latency": 0.042})
    def delivery(self, ev, e):
        b = {"version": "0", "id": str(uuid.uuid4()), "detail-type": ev, "source": "aws.mail", "account": "123456789012", "time": iso(now(), False), "region": "eu-central-1", "resources": [self.arn("message", e["id"])], "detail": self.ev(e)}
        if env("DELIVERY") == "sns":
            b = {"Type": "Notification", "MessageId": str(uuid.uuid4()), "TopicArn": self.arn("topic", "events"), "Message": json.dumps({"eventType": ev, "mail": self.ev(e)}), "Timestamp": iso(now())}
        return json.dumps(b, separators=(",", ":")).encode(), {"Content-Type": "text/plain; charset=UTF-8" if env("DELIVERY") == "sns" else "application/json", "x-amzn-event-type": ev, "User-Agent": "Amazon/EventBridge/ApiDestinations"}

    # --- extraction service
    def xhook_created(self, req, w): return R(self.created, self.xhook_view(w, True))
    def xhook_listed(self, req, l): return self.many(req, l, self.xhook_view)
    def xhook_gone(self, req, w): return self.ok({})
