"""A shop: people sign up, confirm their address, sign in with a code and get receipts."""

import base64
import json
import os
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from fastapi import FastAPI, Header, HTTPException, Request
from pydantic import BaseModel, EmailStr

from mail import Mail, MailRefused, MailUnknown, is_genuine

SENDER = "Shop <hello@sandbox.test>"


@dataclass
class Account:
    name: str
    token: str = field(default_factory=secrets.token_urlsafe)
    code: str | None = None
    reminder: str | None = None
    confirmed: bool = False
    deliverable: bool = True
    mail: str = "sent"


class Signup(BaseModel):
    name: str
    email: EmailStr


class SignIn(BaseModel):
    email: EmailStr
    code: str


class Order(BaseModel):
    email: EmailStr
    total: str


def create_app(mail: Mail, webhook_secret: str) -> FastAPI:
    app = FastAPI()
    # They stand for tables of a database.
    accounts: dict[str, Account] = {}
    handled: set[str] = set()

    def account(email: str) -> Account:
        if email not in accounts:
            raise HTTPException(404, "no such account")
        return accounts[email]

    @app.post("/signup", status_code=201)
    def sign_up(signup: Signup, request: Request) -> dict:
        if signup.email in accounts:
            raise HTTPException(409, "this address has an account")
        new = Account(signup.name)
        # Before the email is sent: a webhook about it may come at once.
        accounts[signup.email] = new
        link = f"{request.base_url}confirm?token={new.token}"
        try:
            mail.send({
                "from": SENDER,
                "to": signup.email,
                "subject": f"Welcome, {signup.name}",
                "text": f"Confirm your address: {link}",
                "html": f'<p>Hello!</p><p><a href="{link}">Confirm your address</a></p>',
            })
            tomorrow = datetime.now(timezone.utc) + timedelta(hours=24)
            new.reminder = mail.send({
                "from": SENDER,
                "to": signup.email,
                "subject": "Reminder: confirm your address",
                "text": f"Confirm your address: {link}",
                "scheduledAt": tomorrow.isoformat(),
            })
        except MailRefused:
            del accounts[signup.email]
            raise HTTPException(503, "please try again later")
        except MailUnknown:
            new.mail = "unknown"
        return {"email": signup.email, "mail": new.mail}

    @app.get("/confirm")
    def confirm(token: str) -> dict:
        for email, found in accounts.items():
            if secrets.compare_digest(found.token, token):
                found.confirmed = True
                if found.reminder:
                    mail.cancel(found.reminder)
                    found.reminder = None
                return {"confirmed": email}
        raise HTTPException(404, "this link is not valid")

    @app.post("/code", status_code=202)
    def request_code(address: dict[str, EmailStr]) -> dict:
        found = account(address["email"])
        found.code = f"{secrets.randbelow(900_000) + 100_000}"
        text = f"Your code: {found.code}"
        mail.send({"from": SENDER, "to": address["email"], "subject": "Sign in", "text": text})
        return {}

    @app.post("/signin")
    def sign_in(entered: SignIn) -> dict:
        found = account(entered.email)
        if found.code is None or not secrets.compare_digest(found.code, entered.code):
            raise HTTPException(401, "this code is not valid")
        found.code = None
        return {"name": found.name}

    @app.post("/orders", status_code=201)
    def order(order: Order) -> dict:
        if not account(order.email).deliverable:
            raise HTTPException(409, "we cannot write to this address")
        receipt = base64.b64encode(f"Total: {order.total}\n".encode()).decode()
        id = mail.send({
            "from": SENDER,
            "to": order.email,
            "subject": "Your receipt",
            "text": "Thank you!",
            "attachments": [{"filename": "receipt.txt", "content": receipt, "contentType": "text/plain"}],
            "tags": {"kind": "receipt"},
        })
        return {"id": id}

    @app.get("/accounts/{email}")
    def status(email: str) -> dict:
        found = account(email)
        return {"confirmed": found.confirmed, "deliverable": found.deliverable, "mail": found.mail}

    @app.post("/hooks/email", status_code=204)
    async def hook(request: Request, mail_signature: str = Header("")) -> None:
        body = await request.body()
        if not is_genuine(webhook_secret, mail_signature, body):
            raise HTTPException(401)
        delivery = json.loads(body)
        if delivery["id"] in handled:
            return
        handled.add(delivery["id"])
        recipient = delivery["data"].get("recipient")
        if delivery["event"] in ("email.bounced", "email.complained") and recipient in accounts:
            accounts[recipient].deliverable = False

    return app


def from_environment() -> FastAPI:
    """For `uvicorn app:from_environment --factory`."""
    mail = Mail(os.environ["EMAIL_URL"], os.environ["EMAIL_KEY"])
    return create_app(mail, os.environ["WEBHOOK_SECRET"])
