"""The fixture of pytest. The package brings it: a project does not set it up."""

from collections.abc import Iterator

import pytest

from . import Sandbox


@pytest.fixture
def svc_sandbox() -> Iterator[Sandbox]:
    """A sandbox of both services for this test alone."""
    with Sandbox() as sandbox:
        yield sandbox
