"""Sends email, and verifies what the email service says about it."""

import hashlib
import hmac
import time

import httpx


class MailRefused(Exception):
    """The service has not accepted the email. Trying again later is safe."""


class MailUnknown(Exception):
    """The service may have accepted the email: do not send it again unseen."""


class Mail:
    def __init__(self, url: str, key: str, timeout: float = 5.0) -> None:
        self.http = httpx.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=timeout)

    def send(self, email: dict) -> str:
        """Sends an email and returns its ID."""
        response = self._post("/api/v1/emails", email)
        for _ in range(2):
            if response.status_code != 429:
                break
            # The service has not processed the request, so it may be repeated.
            time.sleep(min(float(response.headers.get("retry-after", 1)), 5))
            response = self._post("/api/v1/emails", email)
        if response.status_code >= 500:
            raise MailUnknown(response.text)
        if response.is_error:
            raise MailRefused(response.text)
        return response.json()["id"]

    def cancel(self, id: str) -> None:
        """Cancels a scheduled email. One that was sent meanwhile stays sent."""
        response = self.http.patch(f"/api/v1/emails/{id}/cancel")
        if response.status_code != 409:
            response.raise_for_status()

    def _post(self, path: str, body: dict) -> httpx.Response:
        try:
            return self.http.post(path, json=body)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise MailRefused(str(error)) from error
        except httpx.TransportError as error:
            raise MailUnknown(str(error)) from error


def is_genuine(secret: str, signature: str, body: bytes) -> bool:
    """Whether the service signed this body: the bytes as they arrived, before they are parsed."""
    expected = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode())
