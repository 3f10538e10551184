from urllib.parse import parse_qs, urlsplit

import pytest

ADA = "ada@example.test"


def sign_up(shop, email=ADA):
    return shop.post("/signup", json={"name": "Ada", "email": email})


def test_a_signup_sends_a_welcome(shop, sandbox):
    assert sign_up(shop).status_code == 201
    message = sandbox.wait(ADA)
    assert message["subject"] == "Welcome, Ada"
    assert message["from"] == "Shop <hello@sandbox.test>"


def test_the_welcome_has_text_and_html(shop, sandbox):
    sign_up(shop)
    message = sandbox.wait(ADA)
    assert "Confirm your address: http" in message["text"]
    assert "<p>Hello!</p>" in message["html"]


def test_the_link_of_the_welcome_confirms_the_address(shop, sandbox):
    sign_up(shop)
    link = sandbox.wait(ADA)["links"][0]["url"]
    assert shop.get(link).json() == {"confirmed": ADA}
    assert shop.get(f"/accounts/{ADA}").json()["confirmed"]


def test_the_link_has_a_token_of_its_own(shop, sandbox):
    sign_up(shop)
    sign_up(shop, "bob@example.test")
    links = [sandbox.wait(to)["links"][0]["url"] for to in (ADA, "bob@example.test")]
    tokens = [parse_qs(urlsplit(link).query)["token"] for link in links]
    assert tokens[0] != tokens[1]


def test_a_changed_link_confirms_nothing(shop, sandbox):
    sign_up(shop)
    link = sandbox.wait(ADA)["links"][0]["url"]
    assert shop.get(link + "x").status_code == 404
    assert not shop.get(f"/accounts/{ADA}").json()["confirmed"]


def test_a_second_signup_sends_nothing(shop, sandbox):
    sign_up(shop)
    assert sign_up(shop).status_code == 409
    assert sandbox.subjects(ADA) == ["Welcome, Ada"]


def test_an_address_that_is_none_is_refused(shop, sandbox):
    assert sign_up(shop, "ada at example.test").status_code == 422
    assert sandbox.call("GET", "/_sandbox/emails")["data"] == []


def test_a_code_signs_in(shop, sandbox):
    sign_up(shop)
    shop.post("/code", json={"email": ADA})
    [code] = sandbox.wait(ADA, subject="Sign in")["codes"]
    assert shop.post("/signin", json={"email": ADA, "code": code}).json() == {"name": "Ada"}


def test_a_code_works_once(shop, sandbox):
    sign_up(shop)
    shop.post("/code", json={"email": ADA})
    [code] = sandbox.wait(ADA, subject="Sign in")["codes"]
    tries = [shop.post("/signin", json={"email": ADA, "code": code}) for _ in range(2)]
    assert [response.status_code for response in tries] == [200, 401]


def test_a_receipt_has_an_attachment(shop, sandbox):
    sign_up(shop)
    shop.post("/orders", json={"email": ADA, "total": "12.00 EUR"})
    message = sandbox.wait(ADA, subject="receipt")
    assert [file["filename"] for file in message["attachments"]] == ["receipt.txt"]
    path = f"/_sandbox/messages/{message['id']}/attachments/1"
    assert sandbox.http.get(path).text == "Total: 12.00 EUR\n"


def test_a_reminder_comes_after_24_hours(shop, sandbox):
    sign_up(shop)
    sandbox.advance("23h")
    assert sandbox.subjects(ADA) == ["Welcome, Ada"]
    sandbox.advance("1h")
    assert sandbox.subjects(ADA) == ["Welcome, Ada", "Reminder: confirm your address"]


def test_no_reminder_after_a_confirmation(shop, sandbox):
    sign_up(shop)
    shop.get(sandbox.wait(ADA)["links"][0]["url"])
    sandbox.advance("48h")
    assert sandbox.subjects(ADA) == ["Welcome, Ada"]


def test_a_confirmation_after_the_reminder_is_welcome(shop, sandbox):
    sign_up(shop)
    sandbox.advance("24h")
    link = sandbox.wait(ADA, subject="Reminder")["links"][0]["url"]
    assert shop.get(link).status_code == 200


# The sandbox decides by the address: `bounced@` bounces, `complained@` complains.
@pytest.mark.parametrize("email", ["bounced@example.test", "complained@example.test"])
def test_nothing_is_sent_to_people_whose_mail_came_back(shop, sandbox, email):
    sign_up(shop, email)
    sandbox.settle()
    assert not shop.get(f"/accounts/{email}").json()["deliverable"]
    assert shop.post("/orders", json={"email": email, "total": "1 EUR"}).status_code == 409


def test_a_webhook_that_is_delivered_again_changes_nothing(shop, sandbox):
    sign_up(shop, "bounced@example.test")
    [delivery] = sandbox.deliveries()
    sandbox.call("POST", f"/_sandbox/deliveries/{delivery['id']}/replay")
    [delivery] = sandbox.deliveries()
    assert [attempt["status"] for attempt in delivery["attempts"]] == [204, 204]


def test_a_forged_webhook_is_refused(shop):
    sign_up(shop)
    forged = {"event": "email.bounced", "id": "1", "data": {"recipient": ADA}}
    for signature in ({}, {"mail-signature": "0" * 64}):
        assert shop.post("/hooks/email", json=forged, headers=signature).status_code == 401
    assert shop.get(f"/accounts/{ADA}").json()["deliverable"]


def test_a_rate_limit_is_waited_for(shop, sandbox):
    fault = sandbox.fault(operation="emails.send", status=429, headers={"retry-after": "0"}, times=2)
    assert sign_up(shop).json()["mail"] == "sent"
    assert sandbox.hits(fault) == 2
    assert sandbox.subjects(ADA) == ["Welcome, Ada"]


def test_a_refused_email_can_be_tried_again(shop, sandbox):
    sandbox.fault(operation="emails.send", status=403)
    assert sign_up(shop).status_code == 503
    assert sign_up(shop).status_code == 201


@pytest.mark.parametrize("drop", ["after", "midway"])
def test_an_email_with_an_unknown_outcome_is_not_sent_twice(shop, sandbox, drop):
    sandbox.fault(operation="emails.send", drop=drop)
    assert sign_up(shop).json()["mail"] == "unknown"
    assert sandbox.subjects(ADA) == ["Welcome, Ada"]


def test_a_slow_service_does_not_hold_up_a_signup(shop, sandbox):
    sandbox.fault(operation="emails.send", latency="30s")
    assert sign_up(shop).json()["mail"] == "unknown"
