"""An object of a store: asked for where it is, with or without credentials; what can't be had is
told."""

import pytest
from aiohttp import web
from benchrun_client.contract import DataFile, S3Object
from benchrun_client.datasets.files import (
    Credentials,
    fetch,
    name_of,
    object_url,
    signed_headers,
)
from benchrun_client.failures import RunFailure
from unit.client.servers import answering, serving, serving_at

PREFIX = "BENCHRUN_S3_CHAT"


def place(**changes: object) -> S3Object:
    return S3Object.model_validate(
        {"bucket": "data", "key": "chat.jsonl", "region": "eu-west-1", **changes}
    )


@pytest.mark.parametrize(
    ("url", "changes"),
    [
        pytest.param(
            "https://data.s3.eu-west-1.amazonaws.com/chat.jsonl", {}, id="at AWS"
        ),
        pytest.param(
            "https://s3.eu-west-1.amazonaws.com/my.data/chat.jsonl",
            {"bucket": "my.data"},
            id="with a dot",
        ),
        pytest.param(
            "http://minio:9000/data/chat.jsonl",
            {"endpoint": "http://minio:9000/"},
            id="a store of one's own",
        ),
        pytest.param(
            "http://s/data/a%20b/%C3%BC%2B%281%29%2A%27~.json",
            {"endpoint": "http://s", "key": "a b/ü+(1)*'~.json"},
            id="a key to encode as the signature wants it",
        ),
    ],
)
def test_an_object_url_has_endpoint_bucket_and_key(
    url: str, changes: dict[str, str]
) -> None:
    assert object_url(place(**changes)) == url


async def test_an_object_is_requested_with_a_signature_by_its_encoded_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"{PREFIX}_ACCESS_KEY_ID", "key-id")
    monkeypatch.setenv(f"{PREFIX}_SECRET_ACCESS_KEY", "secret")
    requests: list[web.Request] = []

    async def answer(request: web.Request) -> web.Response:
        requests.append(request)
        return web.Response(text="rows")

    async with serving_at("/data/a b+.csv", answer) as url:
        path = await fetch(
            DataFile(s3=place(endpoint=url, key="a b+.csv", credentials=PREFIX)),
            max_bytes=10,
        )
    assert path.read_text() == "rows"
    path.unlink()
    (request,) = requests
    assert request.raw_path == "/data/a%20b%2B.csv"
    assert request.headers["Authorization"].startswith(
        "AWS4-HMAC-SHA256 Credential=key-id/"
    )
    assert request.headers["Host"] == url.removeprefix("http://")
    assert "secret" not in str(request.headers)


async def test_without_a_secret_nothing_is_signed() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=str("Authorization" in request.headers))

    async with serving_at("/data/chat.jsonl", answer) as url:
        path = await fetch(DataFile(s3=place(endpoint=url)), max_bytes=10)
    assert path.read_text() == "False"
    path.unlink()


async def test_missing_credentials_name_the_keys_that_the_secret_must_have() -> (
    None
):
    with pytest.raises(
        RunFailure, match=r"s3://data/chat\.jsonl.*AWS_ACCESS_KEY_ID"
    ) as failure:
        await fetch(
            DataFile(s3=place(credentials="BENCHRUN_S3_ABSENT")), max_bytes=10
        )
    assert failure.value.reason == "DatasetNotFound"


async def test_a_refusal_is_reported_with_its_status_and_without_the_url() -> None:
    async with serving(data=answering(403)) as url:
        with pytest.raises(
            RunFailure, match=r"^s3://data/chat\.jsonl answered 404 Not Found$"
        ) as failure:
            await fetch(DataFile(s3=place(endpoint=url)), max_bytes=10)
    assert failure.value.reason == "DatasetNotFound"


async def test_a_signed_request_is_not_led_on_to_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(f"{PREFIX}_ACCESS_KEY_ID", "key-id")
    monkeypatch.setenv(f"{PREFIX}_SECRET_ACCESS_KEY", "secret")
    requests: list[str] = []

    async def other(request: web.Request) -> web.Response:
        requests.append(request.path)
        return web.Response()

    async def lead_on(_: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(f"{elsewhere}/chat")

    async with (
        serving(chat=other) as elsewhere,
        serving_at("/data/chat.jsonl", lead_on) as url,
    ):
        with pytest.raises(RunFailure, match="answered 307"):
            await fetch(
                DataFile(s3=place(endpoint=url, credentials=PREFIX)), max_bytes=10
            )
    assert requests == []


def test_an_object_is_called_by_its_bucket_and_key() -> None:
    assert name_of(DataFile(s3=place())) == "s3://data/chat.jsonl"


# Signing a request for an object store, by AWS's own published examples.

EXAMPLE = Credentials(
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
)


def test_the_example_of_aws_documentation_gets_its_signature() -> None:
    # "Signature Calculations for the Authorization Header", example GET Object.
    headers = signed_headers(
        "https://examplebucket.s3.amazonaws.com/test.txt",
        EXAMPLE,
        region="us-east-1",
        timestamp="20130524T000000Z",
        headers={"Range": "bytes=0-9"},
    )
    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, "
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


def test_a_session_token_is_sent_and_signed() -> None:
    credentials = Credentials("key", "secret", "token")
    headers = signed_headers(
        "http://store:9000/b/k",
        credentials,
        region="r",
        timestamp="20260101T000000Z",
    )
    assert (headers["x-amz-security-token"], headers["host"]) == (
        "token",
        "store:9000",
    )
    assert (
        "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"
        in headers["authorization"]
    )
