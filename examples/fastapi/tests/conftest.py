import socket
import threading

import email_validator
import httpx
import pytest
import uvicorn

from app import create_app
from mail import Mail

# Otherwise pydantic refuses addresses under `.test`.
email_validator.TEST_ENVIRONMENT = True


@pytest.fixture
def shop(svc_sandbox):
    """A client of the application, which runs on a real port: webhooks reach it there."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    hook = svc_sandbox.webhook(["email.bounced", "email.complained"], url=f"{url}/hooks/email")
    app = create_app(Mail(svc_sandbox.env["EMAIL_URL"], svc_sandbox.env["EMAIL_KEY"], timeout=1), hook.secret)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    with httpx.Client(base_url=url, timeout=10) as client:
        yield client
    server.should_exit = True
    thread.join()
