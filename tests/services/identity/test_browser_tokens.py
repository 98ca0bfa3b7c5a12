from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import SecretStr

from turnlog.events.errors import Refused
from turnlog.services.identity.browser_tokens import (
    MAX_BROWSER_SECONDS,
    MAX_BROWSER_TOKEN_SIZE,
    BrowserTokenRequest,
    BrowserTokens,
)
from turnlog.services.identity.derived_keys import derive_key
from turnlog.services.identity.principals import Principal

ROOT_KEY = SecretStr("r" * 32)

APPLICATION = Principal(
    tenant="acme",
    actor="key:shop",
    roles=frozenset({"caller", "operator"}),
    sign_in="key",
    key_id="k1",
)


class Time:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def read(self) -> float:
        return self.now


def build_tokens(time: Time | None = None, root_key: SecretStr = ROOT_KEY) -> BrowserTokens:
    return BrowserTokens(root_key, now=(time or Time()).read)


def create_token(maker: Principal = APPLICATION, **request: Any) -> str:  # noqa: ANN401
    return build_tokens().create_token(maker, BrowserTokenRequest(session="s1", **request))[0]


def find_refusal(tokens: BrowserTokens, token: str) -> str:
    with pytest.raises(Refused) as caught:
        tokens.verify_token(token)
    assert caught.value.code == "invalid-credentials"
    return caught.value.detail


def alter_payload(token: str, **changes: object) -> str:
    encoded, mac = token.removeprefix("tlb_").split(".")
    payload = json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))) | changes
    altered = urlsafe_b64encode(json.dumps(payload).encode()).rstrip(b"=").decode()
    return f"tlb_{altered}.{mac}"


def test_token_signs_in_to_one_session_as_a_caller() -> None:
    tokens = build_tokens()
    token, expires = tokens.create_token(
        APPLICATION, BrowserTokenRequest(session="s1", user="ada", seconds=60)
    )
    assert token.startswith("tlb_")
    assert tokens.verify_token(token) == Principal(
        tenant="acme",
        actor="user:ada",
        roles=frozenset({"caller"}),
        sign_in="browser-token",
        user="ada",
        key_id="k1",
        session="s1",
        is_read_only=True,
        expires=expires,
    )
    assert expires == 1_800_000_060


def test_token_that_may_submit_says_so_and_one_without_a_user_acts_for_its_key() -> None:
    principal = build_tokens().verify_token(create_token(may_submit=True))
    assert not principal.is_read_only
    assert (principal.actor, principal.user) == ("key:shop", None)


@pytest.mark.parametrize(
    "changes",
    [
        {"session": "s2"},
        {"tenant": "other"},
        {"submit": True},
        {"user": "eve", "actor": "user:eve"},
        {"expires": 9_999_999_999},
        {"key": "k2"},
        {},
    ],
)
def test_token_whose_payload_was_altered_is_refused(changes: dict[str, object]) -> None:
    detail = find_refusal(build_tokens(), alter_payload(create_token(), **changes))
    assert detail == "the token is not one of this installation"


def test_token_with_the_signature_of_another_session_is_refused() -> None:
    tokens = build_tokens()
    one = create_token()
    other = tokens.create_token(APPLICATION, BrowserTokenRequest(session="s2"))[0]
    find_refusal(tokens, f"{one.split('.')[0]}.{other.split('.')[1]}")


def test_every_truncated_token_is_refused() -> None:
    tokens, token = build_tokens(), create_token()
    for length in range(len(token)):
        find_refusal(tokens, token[:length])
    for more in ("=", "A", "\n", " "):
        find_refusal(tokens, token + more)


def test_every_altered_character_is_noticed() -> None:
    tokens, token = build_tokens(), create_token()
    for at, character in enumerate(token):
        find_refusal(tokens, token[:at] + ("A" if character != "A" else "B") + token[at + 1 :])


def test_token_expires() -> None:
    time = Time()
    tokens, token = build_tokens(time), create_token(seconds=60)
    time.now += 59
    tokens.verify_token(token)
    time.now += 1
    assert find_refusal(tokens, token) == "the token is expired"


def test_token_of_another_root_key_is_refused() -> None:
    find_refusal(build_tokens(root_key=SecretStr("R" * 32)), create_token())


def test_token_that_is_too_long_is_refused_before_it_is_read() -> None:
    tokens = build_tokens()
    encoded = create_token().removeprefix("tlb_").split(".")[0]
    payload = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).ljust(1_800)
    longer = urlsafe_b64encode(payload).decode()
    assert find_refusal(tokens, f"tlb_{longer}.{tokens.compute_mac(longer)}")
    assert tokens.verify_token(f"tlb_{encoded}.{tokens.compute_mac(encoded)}").session == "s1"
    with pytest.raises(Refused, match="too long"):
        create_token(user="x" * MAX_BROWSER_TOKEN_SIZE)


@pytest.mark.parametrize("seconds", [0, -1, MAX_BROWSER_SECONDS + 1, float("nan"), float("inf")])
def test_token_lives_at_most_an_hour(seconds: float) -> None:
    with pytest.raises(Refused) as caught:
        create_token(seconds=seconds)
    assert caught.value.field == "seconds"


def test_token_does_not_outlive_what_its_maker_signed_in_with() -> None:
    maker = Principal(tenant="acme", user="ada", sign_in="oidc", expires=1_800_000_030.0)
    principal = build_tokens().verify_token(create_token(maker))
    assert principal.expires == 1_800_000_030


def test_whoever_is_a_user_makes_tokens_for_that_user_only() -> None:
    maker = Principal(tenant="acme", actor="user:ada", user="ada", sign_in="key", key_id="k2")
    assert build_tokens().verify_token(create_token(maker)).user == "ada"
    with pytest.raises(Refused, match="user-not-trusted"):
        create_token(maker, user="eve")


def test_token_of_a_browser_makes_no_other() -> None:
    maker = build_tokens().verify_token(create_token(may_submit=True))
    with pytest.raises(Refused, match="makes no others"):
        create_token(maker)


def test_derived_keys_are_those_of_hkdf_and_differ_by_purpose() -> None:
    expected = HKDF(SHA256(), 32, b"turnlog root key", b"cookies").derive(b"r" * 32)
    assert derive_key(ROOT_KEY, "cookies") == expected
    assert derive_key(ROOT_KEY, "browser tokens") != expected
