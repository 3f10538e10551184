"""SMTP server for the tests of the relay. It requires STARTTLS and a password.

Prints `ready`, then one line of JSON for each accepted message. Rejects `no@…`
permanently, and `later@…` once.
"""

import json
import ssl
import sys
import time

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult


class Handler:
    deferred = False

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("no@"):
            return "550 5.1.1 no such user"
        if address.startswith("later@") and not self.deferred:
            self.deferred = True
            return "451 4.7.1 greylisted"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        message = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "tls": session.ssl is not None,
            "authenticated": session.authenticated,
            "peer": session.peer[1],
            "source": envelope.content.decode(),
        }
        print(json.dumps(message), flush=True)
        return "250 OK"


def authenticate(server, session, envelope, mechanism, data):
    return AuthResult(success=(data.login, data.password) == (b"ada", b"p@ss word"))


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
controller = Controller(
    Handler(),
    hostname="127.0.0.1",
    port=int(sys.argv[3]),
    tls_context=context,
    require_starttls=True,
    auth_required=True,
    authenticator=authenticate,
)
controller.start()
print("ready", flush=True)
time.sleep(300)
