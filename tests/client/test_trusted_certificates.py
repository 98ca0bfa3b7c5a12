"""Which certificates clients of a service trust."""

from __future__ import annotations

import ssl

import httpx

from turnlog.client.trusted_certificates import create_tls_context


def test_client_of_a_service_without_tls_reads_no_certificates_and_trusts_none() -> None:
    context = create_tls_context("http://127.0.0.1:8700")
    assert context.cert_store_stats()["x509"] == 0
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_client_of_a_service_behind_tls_trusts_the_usual_certificates() -> None:
    context = create_tls_context("https://turnlog.example")
    assert context.cert_store_stats() == httpx.create_ssl_context().cert_store_stats()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
