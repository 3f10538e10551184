import pytest

ADA = "ada@example.test"


def sign_up(shop, email=ADA):
    return shop.post("/signup", json={"name": "Ada", "email": email})


def test_a_signup_sends_a_welcome(shop, svc_sandbox):
    assert sign_up(shop).status_code == 201
    mail = svc_sandbox.messages.wait(to=ADA)
    assert mail.subject == "Welcome, Ada"
    assert mail.from_ == "Shop <hello@sandbox.test>"


def test_the_welcome_has_text_and_html(shop, svc_sandbox):
    sign_up(shop)
    mail = svc_sandbox.messages.wait(to=ADA)
    assert "Confirm your address: http" in mail.text
    assert "<p>Hello!</p>" in mail.html


def test_the_link_of_the_welcome_confirms_the_address(shop, svc_sandbox):
    sign_up(shop)
    link = svc_sandbox.messages.wait(to=ADA).link("Confirm").url
    assert shop.get(link).json() == {"confirmed": ADA}
    assert shop.get(f"/accounts/{ADA}").json()["confirmed"]


def test_the_link_has_a_token_of_its_own(shop, svc_sandbox):
    sign_up(shop)
    sign_up(shop, "bob@example.test")
    links = [svc_sandbox.messages.wait(to=to).link("Confirm") for to in (ADA, "bob@example.test")]
    assert links[0].query["token"] != links[1].query["token"]


def test_a_changed_link_confirms_nothing(shop, svc_sandbox):
    sign_up(shop)
    link = svc_sandbox.messages.wait(to=ADA).link("Confirm").url
    assert shop.get(link + "x").status_code == 404
    assert not shop.get(f"/accounts/{ADA}").json()["confirmed"]


def test_a_second_signup_sends_nothing(shop, svc_sandbox):
    sign_up(shop)
    assert sign_up(shop).status_code == 409
    assert svc_sandbox.messages.subjects(to=ADA) == ["Welcome, Ada"]


def test_an_address_that_is_none_is_refused(shop, svc_sandbox):
    assert sign_up(shop, "ada at example.test").status_code == 422
    assert svc_sandbox.call("GET", "/_sandbox/emails")["data"] == []


def test_a_code_signs_in(shop, svc_sandbox):
    sign_up(shop)
    shop.post("/code", json={"email": ADA})
    code = svc_sandbox.messages.wait(to=ADA, subject="Sign in").code
    assert shop.post("/signin", json={"email": ADA, "code": code}).json() == {"name": "Ada"}


def test_a_code_works_once(shop, svc_sandbox):
    sign_up(shop)
    shop.post("/code", json={"email": ADA})
    code = svc_sandbox.messages.wait(to=ADA, subject="Sign in").code
    tries = [shop.post("/signin", json={"email": ADA, "code": code}) for _ in range(2)]
    assert [response.status_code for response in tries] == [200, 401]


def test_a_receipt_has_an_attachment(shop, svc_sandbox):
    sign_up(shop)
    shop.post("/orders", json={"email": ADA, "total": "12.00 EUR"})
    [receipt] = svc_sandbox.messages.wait(to=ADA, subject="receipt").attachments
    assert (receipt.filename, receipt.content) == ("receipt.txt", b"Total: 12.00 EUR\n")


def test_a_reminder_comes_after_24_hours(shop, svc_sandbox):
    sign_up(shop)
    svc_sandbox.clock.advance(hours=23)
    assert svc_sandbox.messages.subjects(to=ADA) == ["Welcome, Ada"]
    svc_sandbox.clock.advance(hours=1)
    assert svc_sandbox.messages.subjects(to=ADA) == ["Welcome, Ada", "Reminder: confirm your address"]


def test_no_reminder_after_a_confirmation(shop, svc_sandbox):
    sign_up(shop)
    shop.get(svc_sandbox.messages.wait(to=ADA).link("Confirm").url)
    svc_sandbox.clock.advance(hours=48)
    assert svc_sandbox.messages.subjects(to=ADA) == ["Welcome, Ada"]


def test_a_confirmation_after_the_reminder_is_welcome(shop, svc_sandbox):
    sign_up(shop)
    svc_sandbox.clock.advance(hours=24)
    link = svc_sandbox.messages.wait(to=ADA, subject="Reminder").link("Confirm").url
    assert shop.get(link).status_code == 200


# The sandbox decides by the address: `bounced@` bounces, `complained@` complains.
@pytest.mark.parametrize("email", ["bounced@example.test", "complained@example.test"])
def test_nothing_is_sent_to_people_whose_mail_came_back(shop, svc_sandbox, email):
    sign_up(shop, email)
    svc_sandbox.settle()
    assert not shop.get(f"/accounts/{email}").json()["deliverable"]
    assert shop.post("/orders", json={"email": email, "total": "1 EUR"}).status_code == 409


def test_a_webhook_that_is_delivered_again_changes_nothing(shop, svc_sandbox):
    sign_up(shop, "bounced@example.test")
    svc_sandbox.settle()
    [delivery] = svc_sandbox.call("GET", "/_sandbox/deliveries")["data"]
    svc_sandbox.call("POST", f"/_sandbox/deliveries/{delivery['id']}/replay")
    svc_sandbox.settle()
    [delivery] = svc_sandbox.call("GET", "/_sandbox/deliveries")["data"]
    assert [attempt["status"] for attempt in delivery["attempts"]] == [204, 204]


def test_a_forged_webhook_is_refused(shop):
    sign_up(shop)
    forged = {"event": "email.bounced", "id": "1", "data": {"recipient": ADA}}
    for signature in ({}, {"mail-signature": "0" * 64}):
        assert shop.post("/hooks/email", json=forged, headers=signature).status_code == 401
    assert shop.get(f"/accounts/{ADA}").json()["deliverable"]


def test_a_rate_limit_is_waited_for(shop, svc_sandbox):
    with svc_sandbox.fault("emails.send", status=429, retry_after=0, times=2) as fault:
        assert sign_up(shop).json()["mail"] == "sent"
    assert fault.hits == 2
    assert svc_sandbox.messages.subjects(to=ADA) == ["Welcome, Ada"]


def test_a_refused_email_can_be_tried_again(shop, svc_sandbox):
    svc_sandbox.fault("emails.send", status=403)
    assert sign_up(shop).status_code == 503
    assert sign_up(shop).status_code == 201


@pytest.mark.parametrize("drop", ["after", "midway"])
def test_an_email_with_an_unknown_outcome_is_not_sent_twice(shop, svc_sandbox, drop):
    svc_sandbox.fault("emails.send", drop=drop)
    assert sign_up(shop).json()["mail"] == "unknown"
    assert svc_sandbox.messages.subjects(to=ADA) == ["Welcome, Ada"]


def test_a_slow_service_does_not_hold_up_a_signup(shop, svc_sandbox):
    svc_sandbox.fault("emails.send", latency=30)
    assert sign_up(shop).json()["mail"] == "unknown"
