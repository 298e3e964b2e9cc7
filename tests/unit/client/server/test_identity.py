"""What servers say of themselves: equal words for equally configured ones, None where they say
nothing."""

import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from benchrun_client.contract import ServedModel, ServerEdge
from benchrun_client.engines import ENGINES
from benchrun_client.server.counter_snapshots import (
    MAX_VERSION_CHARACTERS,
    identify,
    models_text,
    served_model,
    settings_digest,
)
from unit.client.servers import Handler, answering, serving

VLLM = ENGINES["VLLM"]

LABELS = {
    "block_size": "16",
    "cache_dtype": "auto",
    "enable_prefix_caching": "True",
    "kv_cache_dtype_skip_layers": "[]",
    "num_gpu_blocks": "1000",
    "num_gpu_blocks_override": "None",
    "kv_cache_size_tokens": "16000",
    "kv_cache_max_concurrency": "4.0",
}


def line(engine: int = 0, **changes: str) -> str:
    labels = {"engine": str(engine), **LABELS, **changes}
    return (
        "vllm:cache_config_info{"
        + ",".join(f'{name}="{value}"' for name, value in labels.items())
        + "} 1.0\n"
    )


PAGE = "# TYPE vllm:cache_config_info gauge\n" + line()


def test_a_digest_is_of_the_length_that_a_record_takes() -> None:
    digest = settings_digest(PAGE, VLLM)
    assert digest is not None
    assert len(digest) == 32
    assert set(digest) <= set("0123456789abcdef")
    assert (
        ServerEdge(address="a", before=None, after=None, settings=digest).settings
        == digest
    )


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(line(3), id="the engine's number"),
        pytest.param(line(0) + line(1), id="several engines alike"),
        pytest.param(
            line(
                num_gpu_blocks="998",
                kv_cache_size_tokens="15968",
                kv_cache_max_concurrency="3.9",
            ),
            id="sizes",
        ),
        pytest.param(
            "".join(f"vllm:noise_total {n}\n" for n in range(9)) + line(),
            id="the rest of the page",
        ),
        pytest.param(
            "vllm:cache_config_info{"
            + ",".join(f'{n}="{v}"' for n, v in sorted(LABELS.items())[::-1])
            + "} 1\n",
            id="the order of the labels",
        ),
    ],
)
def test_equally_configured_servers_have_equal_digests_whatever(page: str) -> None:
    assert settings_digest(page, VLLM) == settings_digest(PAGE, VLLM)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(line(block_size="32"), id="another value"),
        pytest.param(line(enable_prefix_caching="False"), id="no prefix cache"),
        pytest.param(line(gpu_memory_utilization="0.9"), id="one label more"),
        pytest.param(line(0) + line(1, block_size="32"), id="one of its engines"),
        pytest.param(
            line(kv_cache_dtype_skip_layers='[\\"a\\", \\"}\\"]'),
            id="quotes and braces within",
        ),
    ],
)
def test_differently_configured_servers_have_different_digests(page: str) -> None:
    assert settings_digest(page, VLLM) not in (None, settings_digest(PAGE, VLLM))


@pytest.mark.parametrize(
    "page",
    [
        "",
        "vllm:generation_tokens_total 1\n",
        'vllm:cache_config_info_other{a="b"} 1\n',
    ],
)
def test_a_page_without_configuration_has_none(page: str) -> None:
    assert settings_digest(page, VLLM) is None


async def identified(url: str) -> ServerEdge:
    async with aiohttp.ClientSession() as session:
        return await identify(
            session, f"{url}/metrics", VLLM, role="decode", model="m"
        )


def edge(url: str, **known: Any) -> ServerEdge:
    return ServerEdge(
        address=url.removeprefix("http://"),
        role="decode",
        before=None,
        after=None,
        **known,
    )


async def test_version_and_settings_are_requested_from_each_server() -> None:
    version = answering(
        200, text='{"version": "0.32.0"}', content_type="application/json"
    )
    async with serving(version=version, metrics=answering(200, text=PAGE)) as url:
        assert await identified(url) == edge(
            url,
            version="0.32.0",
            settings=settings_digest(PAGE, VLLM),
            engines="vLLM",
        )


async def test_a_version_without_end_is_cut() -> None:
    text = json.dumps({"version": "0.32.0" + "x" * 200})
    async with serving(version=answering(200, text=text)) as url:
        version = (await identified(url)).version
    assert version is not None
    assert (version[:7], len(version)) == ("0.32.0x", MAX_VERSION_CHARACTERS)


async def test_a_server_is_known_by_host_and_port_and_never_by_a_password() -> None:
    async with serving() as url:
        assert await identified(
            url.replace("http://", "http://user:secret@")
        ) == edge(url)


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(answering(404, text="{}"), id="not there"),
        pytest.param(answering(200, text="<html>"), id="no JSON"),
        pytest.param(answering(200, text="[]"), id="another JSON"),
        pytest.param(answering(200, text='{"version": 32}'), id="no text"),
        pytest.param(answering(200, text="{}"), id="no version"),
    ],
)
async def test_a_server_that_names_no_version_has_none(version: Handler) -> None:
    async with serving(version=version, metrics=answering(500, text="")) as url:
        assert await identified(url) == edge(url)


async def test_a_server_that_is_gone_has_neither() -> None:
    async with serving() as url:
        pass
    assert await identified(url) == edge(url)


async def test_the_version_is_requested_beside_the_page_under_a_path_of_its_own() -> (
    None
):
    paths: list[str] = []

    async def version(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.json_response({"version": "1"})

    async with serving(base_version=version) as url:
        await identified(f"{url}/base")
    assert paths == ["/base/version"]


MODEL = {
    "id": "m",
    "object": "model",
    "created": 1,
    "root": "/models/m",
    "parent": None,
    "max_model_len": 4096,
}
ADAPTER = {
    "id": "lora",
    "created": 2,
    "root": "/loras/l",
    "parent": "m",
    "max_model_len": None,
}


@pytest.mark.parametrize(
    ("text", "models"),
    [
        pytest.param("id=m root=/models/m max_model_len=4096", [MODEL], id="one"),
        pytest.param(
            "id=m root=/models/m max_model_len=4096",
            [MODEL | {"created": 99}],
            id="when does not matter",
        ),
        pytest.param(
            "id=lora root=/loras/l parent=m; id=m root=/models/m max_model_len=4096",
            [MODEL, ADAPTER],
            id="an adapter",
        ),
        pytest.param(None, [], id="none"),
        pytest.param(None, "models", id="no list"),
        pytest.param(None, ["m"], id="no models"),
    ],
)
def test_models_are_reported_by_what_equal_servers_have_alike(
    text: str | None, models: object
) -> None:
    assert models_text({"object": "list", "data": models}) == text


@pytest.mark.parametrize("answer", [None, [], "models", 7])
def test_an_answer_that_is_no_list_of_models_tells_none(answer: object) -> None:
    assert models_text(answer) is None


def test_a_long_list_still_tells_whether_two_are_equal() -> None:
    def models_of(last: str) -> str:
        return (
            models_text(
                {
                    "data": [
                        *({"id": f"adapter-{n:03d}"} for n in range(100)),
                        {"id": last},
                    ]
                }
            )
            or ""
        )

    assert models_of("z1") == models_of("z1") != models_of("z2")
    assert len(models_of("z1")) == 300
    assert ServerEdge(
        address="a", before=None, after=None, models=models_of("z1")
    ).models == models_of("z1")


async def test_models_are_requested_from_each_server() -> None:
    answer = answering(
        200, text='{"data": [{"id": "m"}]}', content_type="application/json"
    )
    async with serving(v1_models=answer) as url:
        assert await identified(url) == edge(
            url, models="id=m", served=ServedModel(id="m")
        )


@pytest.mark.parametrize(
    ("expected", "models"),
    [
        pytest.param(
            ServedModel(id="m", root="/models/m"), [MODEL], id="the one asked for"
        ),
        pytest.param(
            ServedModel(id="m", root="/models/m"),
            [MODEL | {"id": "other"}, MODEL],
            id="not the first",
        ),
        pytest.param(
            ServedModel(id="other", root="/models/m"),
            [MODEL | {"id": "other"}],
            id="another name",
        ),
        pytest.param(ServedModel(id="m"), [{"id": "m"}], id="no root"),
        pytest.param(
            ServedModel(id="m"),
            [{"id": "m", "root": 7}],
            id="a root that is not a text",
        ),
        pytest.param(
            ServedModel(id="m"),
            [{"id": "m", "root": "x" * 601}],
            id="a root that is too long",
        ),
        pytest.param(
            ServedModel(id="m", root="/models/base"),
            [
                ADAPTER | {"id": "m", "parent": "base"},
                MODEL | {"id": "base", "root": "/models/base"},
            ],
            id="of an adapter that of its model",
        ),
        pytest.param(
            ServedModel(id="m"),
            [ADAPTER | {"id": "m", "parent": "gone"}],
            id="of an adapter of what is not listed",
        ),
        pytest.param(
            ServedModel(id="m"),
            [ADAPTER | {"id": "m", "parent": ["m"]}],
            id="of an adapter of nonsense",
        ),
        pytest.param(
            ServedModel(id="x" * 300), [{"id": "x" * 999}], id="a name without end"
        ),
        pytest.param(
            ServedModel(id="?"), [{"id": "\ud800"}], id="half a character"
        ),
        pytest.param(None, [{"root": "m"}, {"id": 7}, "m"], id="no names"),
        pytest.param(None, [], id="none"),
        pytest.param(None, "models", id="no list"),
    ],
)
def test_the_model_that_requests_name(
    expected: ServedModel | None, models: object
) -> None:
    found = served_model({"object": "list", "data": models}, "m")
    assert found == expected
    if found is not None:
        assert ServedModel.model_validate_json(found.model_dump_json()) == found
