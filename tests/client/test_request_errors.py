"""What a caller of the client reads when there was no answer."""

from __future__ import annotations

import httpx

from turnlog.client import ServiceUnavailable
from turnlog.client.request_errors import create_error


def test_a_service_that_does_not_answer_is_named_with_the_reason_and_without_a_password() -> None:
    url = httpx.URL("http://me:hunter2@127.0.0.1:9/v1/sessions?q=Ada")
    error = create_error(url, None, httpx.ConnectError("connection refused"))
    assert isinstance(error, ServiceUnavailable)
    assert str(error) == (
        "no-answer: http://127.0.0.1:9/v1/sessions was not answered, or its stream broke off:"
        " connection refused; see that a service runs at this address, and send it again"
    )


def test_a_stream_that_breaks_off_without_an_error_is_named_too() -> None:
    error = create_error(httpx.URL("http://127.0.0.1:9/v1/events"), None)
    assert "/v1/events was not answered, or its stream broke off; see" in str(error)
