"""The operator's key: made once, found again, and never told."""

import base64
import logging

import pytest
from benchrun.effects import (
    CHANNEL_KEY,
    ClusterError,
    Forbidden,
    Invalid,
    channel_key,
)
from benchrun.plan import token_of
from unit.effects.scripted_api import Answer, Exchange, answering, gives, refuses

NAMESPACE = "benchrun-system"
PATH = f"/api/v1/namespaces/{NAMESPACE}/secrets"
KEY = bytes(range(32))


def secret(key: bytes) -> Answer:
    return gives(
        {"kind": "Secret", "data": {"key": base64.b64encode(key).decode()}}
    )


async def requested_key(exchange: Exchange) -> bytes:
    return await channel_key(exchange.connection, namespace=NAMESPACE)


async def test_a_restart_finds_the_same_and_writes_nothing() -> None:
    async with answering(secret(KEY)) as exchange:
        assert await requested_key(exchange) == KEY
    assert [(each.method, each.path) for each in exchange.requests] == [
        ("GET", f"{PATH}/{CHANNEL_KEY}")
    ]


async def test_the_first_start_makes_one_of_32_random_bytes() -> None:
    made = []
    for _ in range(2):
        async with answering(refuses(404, "NotFound"), secret(KEY)) as exchange:
            await requested_key(exchange)
        assert [(each.method, each.path) for each in exchange.requests] == [
            ("GET", f"{PATH}/{CHANNEL_KEY}"),
            ("POST", PATH),
        ]
        manifest = exchange.requests[1].body
        assert manifest is not None
        assert (
            manifest["metadata"]["name"],
            manifest["metadata"]["namespace"],
        ) == (
            CHANNEL_KEY,
            NAMESPACE,
        )
        assert manifest["immutable"] is True
        made.append(base64.b64decode(manifest["data"]["key"]))
    assert [len(key) for key in made] == [32, 32]
    assert made[0] != made[1]


async def test_of_two_replicas_both_take_the_one_that_was_kept() -> None:
    async with answering(
        refuses(404, "NotFound"), refuses(409, "AlreadyExists"), secret(KEY)
    ) as exchange:
        assert await requested_key(exchange) == KEY
    assert [each.method for each in exchange.requests] == ["GET", "POST", "GET"]


@pytest.mark.parametrize(
    "found",
    [
        gives({}),
        gives({"data": None}),
        gives({"data": {"key": "no base64!"}}),
        secret(b""),
        secret(KEY[:31]),
    ],
)
async def test_a_secret_without_a_key_is_rejected_and_not_shown(
    found: Answer,
) -> None:
    async with answering(found) as exchange:
        with pytest.raises(Invalid) as refused:
            await requested_key(exchange)
    assert base64.b64encode(KEY[:31]).decode() not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "answers",
    [
        [refuses(403, "Forbidden")],
        [refuses(500)],
        [refuses(404, "NotFound"), refuses(403, "Forbidden")],
        [refuses(404, "NotFound"), refuses(404, "NotFound")],
        [
            refuses(404, "NotFound"),
            refuses(409, "AlreadyExists"),
            refuses(404, "NotFound"),
        ],
    ],
)
async def test_where_the_api_server_refuses_there_is_no_key(
    answers: list[Answer],
) -> None:
    async with answering(*answers) as exchange:
        with pytest.raises(ClusterError):
            await requested_key(exchange)


async def test_the_channel_key_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with answering(refuses(404, "NotFound"), secret(KEY)) as exchange:
        await requested_key(exchange)
        made = exchange.requests[1].body
    assert made is not None
    for text in (made["data"]["key"], base64.b64encode(KEY).decode(), KEY.hex()):
        assert text not in caplog.text


async def test_missing_rights_are_reported_as_missing_rights() -> None:
    async with answering(refuses(403, "Forbidden")) as exchange:
        with pytest.raises(Forbidden):
            await requested_key(exchange)


def test_a_token_is_the_runs_and_the_keys() -> None:
    tokens = {token_of(key, uid) for key in (KEY, KEY[::-1]) for uid in ("a", "b")}
    assert len(tokens) == 4
    assert {len(token) for token in tokens} == {64}
    assert token_of(KEY, "a") == token_of(KEY, "a")
