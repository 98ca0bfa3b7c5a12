from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio
from jwt.algorithms import RSAAlgorithm
from jwt.api_jws import PyJWS

from tests.support.servers.oidc_issuer import (
    ALGORITHMS,
    AUDIENCE,
    OidcIssuer,
    create_claims,
    create_rsa_key,
    create_signing_key,
    encode_segment,
    run_oidc_issuer,
)
from turnlog.contract.value_names import RoleName
from turnlog.events.errors import Refused, Unavailable
from turnlog.services.identity.issuer_documents import MAX_ANSWER_BYTES
from turnlog.services.identity.issuer_keys import (
    DEAD_SECONDS,
    REFETCH_SECONDS,
    STALE_SECONDS,
    IssuerKeys,
)
from turnlog.services.identity.oidc_setup import map_role_names, open_oidc_access
from turnlog.services.identity.oidc_tokens import (
    CLOCK_SKEW,
    MAX_TOKEN_SIZE,
    OidcTerms,
    OidcVerifier,
)
from turnlog.services.identity.principals import ALL_ROLES
from turnlog.services.platform.process_settings import GatewaySettings


class Clocks:
    def __init__(self) -> None:
        self.passed = 0.0

    def read_now(self) -> float:
        return time.time() + self.passed

    def read_monotonic(self) -> float:
        return time.monotonic() + self.passed


@dataclass(repr=False)
class Stand:
    issuer: OidcIssuer
    http: httpx.AsyncClient
    clocks: Clocks
    fetch_seconds: float = 5.0

    def build_verifier(
        self,
        *,
        tenant_claim: str | None = None,
        roles_claim: str = "roles",
        user_claim: str = "sub",
        roles: Mapping[str, tuple[RoleName, ...]] | None = None,
    ) -> OidcVerifier:
        terms = OidcTerms(
            issuer=self.issuer.address,
            audience=AUDIENCE,
            tenant="default",
            tenant_claim=tenant_claim,
            roles_claim=roles_claim,
            user_claim=user_claim,
            roles=map_role_names(roles or {}),
        )
        keys = IssuerKeys(
            self.issuer.address,
            self.http,
            monotonic=self.clocks.read_monotonic,
            fetch_seconds=self.fetch_seconds,
        )
        return OidcVerifier(terms, keys, now=self.clocks.read_now)


@pytest_asyncio.fixture
async def stand() -> AsyncGenerator[Stand]:
    async with run_oidc_issuer() as issuer, httpx.AsyncClient(trust_env=False) as http:
        yield Stand(issuer, http, Clocks())


async def find_refusal(verifier: OidcVerifier, token: str) -> str:
    with pytest.raises(Refused) as caught:
        await verifier.verify_token(token)
    assert caught.value.code == "invalid-credentials"
    assert caught.value.field == "Authorization"
    return caught.value.detail


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_token_of_each_algorithm_signs_its_user_in(stand: Stand, algorithm: str) -> None:
    principal = await stand.build_verifier().verify_token(stand.issuer.create_token(algorithm))
    assert (principal.tenant, principal.user, principal.actor) == ("default", "ada", "user:ada")
    assert principal.roles == {"caller"}
    assert principal.sign_in == "oidc"
    assert principal.expires is not None
    assert 300 < principal.expires - time.time() <= 300 + CLOCK_SKEW


async def test_signature_of_each_algorithm_is_verified(stand: Stand) -> None:
    verifier = stand.build_verifier()
    for algorithm in ALGORITHMS:
        head, _, signature = stand.issuer.create_token(algorithm).split(".")
        claims = create_claims(stand.issuer.address) | {"sub": "eve"}
        detail = await find_refusal(verifier, f"{head}.{encode_segment(claims)}.{signature}")
        assert detail == "the signature of the token is wrong"


@pytest.mark.parametrize("name", ["none", "None", "NONE", "", "HS256", "HS512", "ES512", "RS1"])
async def test_unsigned_and_symmetric_algorithms_are_refused(stand: Stand, name: str) -> None:
    jwk = create_signing_key("RS256").jwk
    secrets = [json.dumps(jwk).encode(), jwk["n"].encode(), b""]
    for key_id in ("rsa", None):
        header = {"alg": name} | ({"kid": key_id} if key_id else {})
        signed = f"{encode_segment(header)}.{encode_segment(create_claims(stand.issuer.address))}"
        for secret in secrets:
            mac = hmac.digest(secret, signed.encode(), hashlib.sha256)
            detail = await find_refusal(stand.build_verifier(), f"{signed}.{encode_segment(mac)}")
            assert "no single key fits its algorithm" in detail
    assert "no signed JSON Web Token" in await find_refusal(stand.build_verifier(), f"{signed}.")


async def test_symmetric_key_of_an_issuer_verifies_nothing(stand: Stand) -> None:
    stand.issuer.keys.append({"kty": "oct", "kid": "shared", "k": encode_segment(b"x" * 32)})
    header = {"alg": "HS256", "kid": "shared"}
    signed = f"{encode_segment(header)}.{encode_segment(create_claims(stand.issuer.address))}"
    mac = hmac.digest(b"x" * 32, signed.encode(), hashlib.sha256)
    detail = await find_refusal(stand.build_verifier(), f"{signed}.{encode_segment(mac)}")
    assert "its key is not known" in detail


# Tests are collected long before they run, so that no moment near now would do.
LONG_AGO = 1_000_000_000
FAR_AHEAD = 4_000_000_000


@pytest.mark.parametrize(
    ("changes", "detail"),
    [
        ({"iss": "https://elsewhere.example"}, "`iss`"),
        ({"iss": None}, "`iss`"),
        ({"aud": "another-service"}, "`aud`"),
        ({"aud": ["another-service"]}, "`aud`"),
        ({"aud": {"turnlog": True}}, "`aud`"),
        ({"aud": "turnlog2"}, "`aud`"),
        ({"exp": LONG_AGO}, "expired"),
        ({"exp": "soon"}, "`exp`"),
        ({"exp": True}, "`exp`"),
        ({"exp": None}, "`exp`"),
        ({"exp": 10**400}, "`exp`"),
        ({"exp": -1}, "`exp`"),
        ({"nbf": FAR_AHEAD}, "`nbf`"),
        ({"nbf": []}, "`nbf`"),
        ({"iat": FAR_AHEAD}, "`iat`"),
        ({"sub": 7}, "`sub`"),
        ({"sub": ""}, "`sub`"),
        ({"sub": "ada\n"}, "`sub`"),
        ({"sub": "ädä"}, "`sub`"),
        ({"sub": "x" * 129}, "`sub`"),
        ({"roles": {"caller": True}}, "`roles`"),
        ({"roles": [["caller"]]}, "`roles`"),
        ({"roles": True}, "`roles`"),
    ],
)
async def test_claim_that_does_not_count_is_named(
    stand: Stand, changes: dict[str, Any], detail: str
) -> None:
    token = stand.issuer.create_token(**changes)
    refusal = await find_refusal(stand.build_verifier(), token)
    assert detail in refusal
    values = [v for v in changes.values() if isinstance(v, str) and len(v) > 4]
    assert [value for value in values if value in refusal] == []


@pytest.mark.parametrize("claim", ["iss", "aud", "exp", "sub", "roles", "tenant"])
async def test_missing_claim_is_named(stand: Stand, claim: str) -> None:
    verifier = stand.build_verifier(tenant_claim="tenant")
    await verifier.verify_token(stand.issuer.create_token(tenant="acme"))
    token = stand.issuer.create_token(tenant="acme", without=(claim,))
    assert f"`{claim}`" in await find_refusal(verifier, token)


async def test_clocks_may_differ_a_little(stand: Stand) -> None:
    now = time.time()
    token = stand.issuer.create_token(
        exp=now - CLOCK_SKEW + 5, nbf=now + CLOCK_SKEW - 5, iat=now + CLOCK_SKEW - 5
    )
    assert (await stand.build_verifier().verify_token(token)).user == "ada"


async def test_remembered_token_expires(stand: Stand) -> None:
    verifier, token = stand.build_verifier(), stand.issuer.create_token()
    first = await verifier.verify_token(token)
    assert await verifier.verify_token(token) is first
    stand.clocks.passed = 299 + CLOCK_SKEW
    assert await verifier.verify_token(token) is first
    stand.clocks.passed = 301 + CLOCK_SKEW
    assert await find_refusal(verifier, token) == "the token is expired"
    assert await find_refusal(verifier, token) == "the token is expired"


@pytest.mark.parametrize(
    "tenant",
    ["ACME ", "akmé", "acm\u0435", "a.b", "*", ">", "", "_installation", "x" * 65, 7, None],
)
async def test_tenant_that_is_no_name_is_refused(stand: Stand, tenant: object) -> None:
    verifier = stand.build_verifier(tenant_claim="tenant")
    refusal = await find_refusal(verifier, stand.issuer.create_token(tenant=tenant))
    assert "`tenant`" in refusal


async def test_tenants_that_differ_in_case_are_two(stand: Stand) -> None:
    verifier = stand.build_verifier(tenant_claim="tenant")
    found = [
        (await verifier.verify_token(stand.issuer.create_token(tenant=tenant))).tenant
        for tenant in ("acme", "Acme")
    ]
    assert found == ["acme", "Acme"]


@pytest.mark.parametrize(
    ("given", "mapping", "roles"),
    [
        (["operator", "auditor", "king"], {}, {"operator", "auditor"}),
        ("operator  auditor", {}, {"operator", "auditor"}),
        ([], {}, set[RoleName]()),
        ("Operator", {}, set[RoleName]()),
        (["*"], {}, set[RoleName]()),
        (["desk"], {"desk": ("operator", "auditor")}, {"operator", "auditor"}),
        # With a mapping, what the issuer happens to call one of ours gives nothing.
        (["administrator"], {"desk": ("operator",)}, set[RoleName]()),
        (["king"], {"*": ("caller",)}, {"caller"}),
        (["*", "desk"], {"*": ("caller",), "desk": ("watcher",)}, {"caller", "watcher"}),
    ],
)
async def test_roles_are_those_that_the_mapping_gives(
    stand: Stand, given: object, mapping: dict[str, tuple[RoleName, ...]], roles: set[RoleName]
) -> None:
    verifier = stand.build_verifier(roles=map_role_names(mapping))
    token = stand.issuer.create_token(roles=given)
    assert (await verifier.verify_token(token)).roles == roles


async def test_role_of_everybody_needs_no_claim(stand: Stand) -> None:
    verifier = stand.build_verifier(roles={"*": ("caller",)})
    token = stand.issuer.create_token(without=("roles",))
    assert (await verifier.verify_token(token)).roles == {"caller"}


async def test_claim_may_lie_within_objects(stand: Stand) -> None:
    verifier = stand.build_verifier(roles_claim="realm_access.roles", user_claim="urn:x.name")
    claims: dict[str, Any] = {
        "realm_access": {"roles": ["watcher"]},
        "urn:x.name": "grace",
        "urn:x": {"name": "eve"},
    }
    principal = await verifier.verify_token(stand.issuer.create_token(**claims))
    assert principal.user == "grace"
    assert principal.roles == {"watcher"}


async def test_unknown_key_is_looked_for_once_a_minute(stand: Stand) -> None:
    verifier = stand.build_verifier()
    await verifier.verify_token(stand.issuer.create_token())
    assert stand.issuer.fetched == ["/.well-known/openid-configuration", "/keys"]
    rotated = create_rsa_key("rotated")
    token = stand.issuer.create_token(key=rotated)
    assert "its key is not known" in await find_refusal(verifier, token)
    stand.clocks.passed = REFETCH_SECONDS + 1
    stand.issuer.keys = [dict(rotated.jwk)]
    await asyncio.gather(*(verifier.verify_token(token) for _ in range(8)))
    assert len(stand.issuer.fetched) == 4
    for number in range(20):
        unknown = stand.issuer.create_token(key=rotated, header={"kid": f"made-up-{number}"})
        await find_refusal(verifier, unknown)
    assert len(stand.issuer.fetched) == 4


async def test_withdrawn_key_is_forgotten_with_what_it_verified(stand: Stand) -> None:
    verifier, token = stand.build_verifier(), stand.issuer.create_token(exp=time.time() + 7200)
    await verifier.verify_token(token)
    stand.issuer.keys = [dict(create_signing_key("ES256").jwk)]
    stand.clocks.passed = STALE_SECONDS + 1
    # What is known goes on counting while the keys are fetched; a key of theirs waits for them.
    await verifier.verify_token(token)
    with pytest.raises(Refused):
        await verifier.verify_token(stand.issuer.create_token(header={"kid": "made-up"}))
    assert "its key is not known" in await find_refusal(verifier, token)


async def test_known_keys_count_for_a_day_without_their_issuer(stand: Stand) -> None:
    verifier = stand.build_verifier()
    await verifier.verify_token(stand.issuer.create_token())
    stand.issuer.status = "500 Internal Server Error"
    for passed, outcome in ((DEAD_SECONDS - 60, None), (DEAD_SECONDS + 60, Unavailable)):
        stand.clocks.passed = passed
        token = stand.issuer.create_token(exp=time.time() + 2 * DEAD_SECONDS, jti=passed)
        if outcome is None:
            await verifier.verify_token(token)
        else:
            with pytest.raises(outcome, match="answered 500"):
                await verifier.verify_token(token)
    await verifier.close()


async def test_issuer_that_comes_back_is_asked_again(stand: Stand) -> None:
    verifier, token = stand.build_verifier(), stand.issuer.create_token()
    stand.issuer.status = "503 Service Unavailable"
    for _ in range(3):
        with pytest.raises(Unavailable, match="answered 503"):
            await verifier.verify_token(token)
    assert len(stand.issuer.fetched) == 1
    stand.issuer.status = "200 OK"
    stand.clocks.passed = 6
    assert (await verifier.verify_token(token)).user == "ada"


async def test_issuer_that_cannot_be_reached_is_unavailable(stand: Stand) -> None:
    token = stand.issuer.create_token()
    stand.issuer.address = "http://127.0.0.1:9"
    with pytest.raises(Unavailable, match="ConnectError"):
        await stand.build_verifier().verify_token(token)


async def test_issuer_that_hangs_is_given_up(stand: Stand) -> None:
    stand.issuer.gate.clear()
    stand.fetch_seconds = 0.2
    verifier, token = stand.build_verifier(), stand.issuer.create_token()
    outcomes = await asyncio.gather(
        *(verifier.verify_token(token) for _ in range(5)), return_exceptions=True
    )
    assert {type(outcome) for outcome in outcomes} == {Unavailable}
    assert "did not answer within 0.2 s" in str(outcomes[0])
    assert len(stand.issuer.fetched) == 1


async def test_who_gives_up_waiting_does_not_end_the_fetch_of_others(stand: Stand) -> None:
    stand.issuer.gate.clear()
    verifier, token = stand.build_verifier(), stand.issuer.create_token()
    first = asyncio.create_task(verifier.verify_token(token))
    second = asyncio.create_task(verifier.verify_token(token))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait((first,))
    stand.issuer.gate.set()
    assert (await second).user == "ada"
    assert len(stand.issuer.fetched) == 2


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"answer": b'{"keys":[' + b" " * 10_000_000 + b"]}"}, f"{MAX_ANSWER_BYTES} bytes"),
        ({"answer": b"[" * 200_000}, "nested"),
        ({"answer": b"<html>"}, "line 1"),
        ({"answer": b'{"keys":{}}'}, "no list of keys"),
        ({"answer": b'{"keys":[%s]}' % b",".join([b"{}"] * 101)}, "more than 100 keys"),
        ({"keys": []}, "no key that verifies"),
        ({"named": "https://elsewhere.example"}, "names another issuer"),
        ({"keys_address": "http://keys.example/keys"}, "https"),
        ({"keys_address": "file:///etc/passwd"}, "https"),
        ({"keys_address": "https://keys.example/\x01"}, "InvalidURL"),
        ({"keys_address": "https://user:pass@keys.example/"}, "https"),
        ({"status": "302 Found"}, "answered 302"),
    ],
)
async def test_answer_of_an_issuer_that_is_no_key_set_makes_it_unavailable(
    stand: Stand, fault: dict[str, Any], reason: str
) -> None:
    for name, value in fault.items():
        setattr(stand.issuer, name, value)
    with pytest.raises(Unavailable, match=re.escape(reason)):
        await stand.build_verifier().verify_token(stand.issuer.create_token())


async def test_keys_that_are_not_for_us_verify_nothing(stand: Stand) -> None:
    good = create_signing_key("ES256").jwk
    small = create_rsa_key("small", 1024)
    unusable = create_rsa_key("other")
    for entry in (
        {**unusable.jwk, "use": "enc"},
        {**unusable.jwk, "key_ops": ["encrypt"]},
        {**RSAAlgorithm.to_jwk(unusable.key, as_dict=True), "kid": "other", "key_ops": ["verify"]},
        {**unusable.jwk, "alg": "RSA-OAEP"},
        {**unusable.jwk, "alg": "RS512"},
        {**unusable.jwk, "n": 7},
        {**unusable.jwk, "kty": "EC"},
        {**unusable.jwk, "kid": 7},
    ):
        stand.issuer.keys = [entry, dict(good)]
        verifier = stand.build_verifier()
        refusal = await find_refusal(verifier, stand.issuer.create_token(key=unusable))
        assert "cannot be verified" in refusal
        assert (await verifier.verify_token(stand.issuer.create_token("ES256"))).user == "ada"
    stand.issuer.keys = [dict(small.jwk), dict(good)]
    with pytest.warns(UserWarning, match="1024"):
        token = stand.issuer.create_token(key=small)
    assert "not known" in await find_refusal(stand.build_verifier(), token)


async def test_key_id_of_two_keys_verifies_nothing(stand: Stand) -> None:
    one, two = create_rsa_key("twice"), create_rsa_key("other")
    stand.issuer.keys = [dict(one.jwk), {**two.jwk, "kid": "twice"}]
    refusal = await find_refusal(stand.build_verifier(), stand.issuer.create_token(key=one))
    assert "no single key" in refusal
    # The same key twice is one; and kinds of keys may share an id.
    stand.issuer.keys = [one.jwk, one.jwk, {**create_signing_key("ES256").jwk, "kid": "twice"}]
    token = stand.issuer.create_token(key=one)
    assert (await stand.build_verifier().verify_token(token)).user == "ada"


async def test_key_id_twice_in_a_header_is_refused(stand: Stand) -> None:
    header = encode_segment(b'{"alg":"RS256","kid":"other","kid":"rsa"}')
    _, claims, signature = stand.issuer.create_token().split(".")
    refusal = await find_refusal(stand.build_verifier(), f"{header}.{claims}.{signature}")
    assert refusal == "the header of the token is invalid"


async def test_token_without_a_key_id_is_verified_by_the_only_key_that_fits(stand: Stand) -> None:
    token = stand.issuer.create_token("ES256", header={"kid": None})
    assert (await stand.build_verifier().verify_token(token)).user == "ada"
    stand.issuer.keys.append(dict(create_rsa_key("second").jwk))
    refusal = await find_refusal(
        stand.build_verifier(), stand.issuer.create_token(header={"kid": None})
    )
    assert "no single key" in refusal


async def test_key_that_a_token_brings_itself_does_not_count(stand: Stand) -> None:
    forged = create_rsa_key("rsa-of-eve")
    for header in (
        {"kid": "rsa", "jwk": forged.jwk},
        {"kid": "rsa", "jku": f"{stand.issuer.address}/eve"},
        {"kid": "rsa", "x5u": f"{stand.issuer.address}/eve"},
        {"kid": "rsa", "x5c": ["AAAA"]},
    ):
        token = stand.issuer.create_token(key=forged, header=header)
        refusal = await find_refusal(stand.build_verifier(), token)
        assert refusal == "the signature of the token is wrong"
    assert f"{stand.issuer.address}/eve" not in stand.issuer.fetched
    assert "/eve" not in stand.issuer.fetched


@pytest.mark.parametrize("header", [{"crit": ["exp"], "exp": 1}, {"crit": []}, {"b64": True}])
async def test_token_that_demands_an_extension_is_refused(
    stand: Stand, header: dict[str, Any]
) -> None:
    head = encode_segment({"alg": "RS256", "kid": "rsa"} | header)
    _, claims, signature = stand.issuer.create_token().split(".")
    refusal = await find_refusal(stand.build_verifier(), f"{head}.{claims}.{signature}")
    assert "extension" in refusal


@pytest.mark.parametrize(
    ("token", "detail"),
    [
        ("", "no signed"),
        ("a.b", "no signed"),
        ("a.b.c.d", "no signed"),
        ("a.b.c\n", "no signed"),
        ("é.b.c", "no signed"),
        ("a.b.c", "header"),
        (f"{encode_segment([])}.b.c", "header"),
        (f"{encode_segment({'alg': ['RS256']})}.b.c", "header"),
        (f"{encode_segment({'alg': 'RS256', 'kid': 7})}.b.c", "header"),
        ("a" * (MAX_TOKEN_SIZE + 1), "more than"),
    ],
)
async def test_text_that_is_no_token_is_refused_without_asking_the_issuer(
    stand: Stand, token: str, detail: str
) -> None:
    assert detail in await find_refusal(stand.build_verifier(), token)
    assert stand.issuer.fetched == []


async def test_claim_that_is_repeated_is_refused(stand: Stand) -> None:
    signing = create_signing_key("RS256")
    claims = json.dumps(create_claims(stand.issuer.address))[:-1] + ', "sub": "eve"}'
    token = PyJWS().encode(claims.encode(), signing.key, "RS256", headers={"kid": "rsa"})
    refusal = await find_refusal(stand.build_verifier(), token)
    assert refusal == "the payload of the token is invalid"


async def test_settings_of_a_gateway_make_its_verifier(
    monkeypatch: pytest.MonkeyPatch, stand: Stand
) -> None:
    for name, value in {
        "ISSUER": stand.issuer.address,
        "AUDIENCE": AUDIENCE,
        "TENANT_CLAIM": "org",
        "USER_CLAIM": "email",
        "ROLES": "desk=operator, desk=auditor,*=caller",
    }.items():
        monkeypatch.setenv(f"TURNLOG_OIDC_{name}", value)
    async with open_oidc_access(GatewaySettings()) as access:
        assert access is not None
        assert access.sign_in is None
        token = stand.issuer.create_token(org="acme", email="ada@acme.example", roles=["desk"])
        principal = await access.verifier.verify_token(token)
    assert (principal.tenant, principal.user) == ("acme", "ada@acme.example")
    assert principal.roles == {"operator", "auditor", "caller"}


async def test_gateway_without_an_issuer_has_no_verifier_and_one_without_audience_is_refused() -> (
    None
):
    async with open_oidc_access(GatewaySettings()) as access:
        assert access is None
    with pytest.raises(Refused) as caught:
        async with open_oidc_access(GatewaySettings(oidc_issuer="https://login.example")):
            pass
    assert caught.value.field == "TURNLOG_OIDC_AUDIENCE"


@pytest.mark.parametrize(
    "issuer",
    ["http://login.example", "ftp://x", "https://a@b.example", "https://b.example/?x", "https://"],
)
def test_issuer_that_others_could_speak_for_is_refused(issuer: str) -> None:
    with pytest.raises(ValueError, match="it must be an address"):
        GatewaySettings(oidc_issuer=issuer)


@pytest.mark.parametrize("roles", ["operator", "=operator", "desk=king", "desk="])
def test_mapping_to_no_role_is_refused(monkeypatch: pytest.MonkeyPatch, roles: str) -> None:
    monkeypatch.setenv("TURNLOG_OIDC_ROLES", roles)
    with pytest.raises(ValueError, match="oidc_roles"):
        GatewaySettings()


def test_our_own_names_of_roles_count_without_a_mapping() -> None:
    assert map_role_names({}) == {role: (role,) for role in ALL_ROLES}


@pytest.mark.slow("starts a process, which imports what a gateway does")
def test_gateway_without_an_issuer_does_not_import_pyjwt() -> None:
    program = (
        "import sys, turnlog.services.identity.oidc_setup, turnlog.services.gateway.app\n"
        "print('jwt' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"False"


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"oidc_client_id": "turnlog"}, "TURNLOG_OIDC_CLIENT_ID"),
        (
            {
                "oidc_client_id": "turnlog",
                "oidc_issuer": "https://login.example",
                "oidc_audience": "turnlog",
            },
            "TURNLOG_OIDC_PAGE",
        ),
    ],
)
async def test_sign_in_at_an_issuer_that_lacks_a_setting_is_refused(
    settings: dict[str, str], field: str
) -> None:
    with pytest.raises(Refused) as caught:
        async with open_oidc_access(GatewaySettings.model_validate(settings)):
            pass
    assert caught.value.field == field


@pytest.mark.parametrize(
    "page", ["http://turnlog.example", "https://a.example/x", "https://u@a.example", "turnlog"]
)
def test_page_that_others_could_answer_for_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="it must be an address"):
        GatewaySettings.model_validate({"oidc_page": page})
