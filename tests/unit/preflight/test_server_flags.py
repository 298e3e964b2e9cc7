"""Server arguments held against the flags that vLLM 0.32 told of itself."""

from typing import Any

import pytest
from benchrun.preflight.remark import Remark
from benchrun.preflight.server_flags import (
    Flag,
    FlagTable,
    entry_point_remarks,
    flag_remarks,
    known_versions,
    table_for,
    table_remarks,
    version_of_image,
)
from benchrun_client.engines import ENGINES
from unit.api.spec_cases import absent
from unit.golden_messages import golden
from unit.preflight.checks import checked, messages, messages as said_of

VLLM = ENGINES["VLLM"]

IMAGE = "vllm/vllm-openai:v0.32.0"


def remarks(
    *args: str, image: str = IMAGE, version: str | None = None
) -> list[Remark]:
    return flag_remarks(args, VLLM, image=image, version=version, path="args")


@pytest.mark.parametrize(
    "args",
    [
        (
            "--max-model-len=8k",
            "--enforce-eager",
            "--gpu-memory-utilization",
            "0.7",
        ),
        ("--max_model_len", "8192"),
        ("-tp", "4"),
        ("-tp=4",),
        ("-O3",),
        ("--no-enable-prefix-caching",),
        ("--kv-cache-dtype=fp8",),
        ("--speculative-config", '{"method": "ngram"}'),
        (
            "--speculative-config.method=ngram",
            "--speculative-config.num_speculative_tokens",
            "3",
        ),
        ("--lora-modules", "a=/a", "b=/b"),
        ("--max-model-len", "-1"),
    ],
)
def test_flags_that_vllm_has(args: tuple[str, ...]) -> None:
    assert remarks(*args) == []


@pytest.mark.parametrize(
    ("args", "place"),
    [
        (("--max-model-len=8k", "--disable-log-requests"), 1),
        (("--max-modl-len=8k",), 0),
        (("--max-model-len",), 0),
        (("--max-model-len", "--enforce-eager"), 0),
        (("--enforce-eager=true",), 0),
        (("--enforce-eager", "true"), 1),
        (("--kv-cache-dtype=fp9",), 0),
        (("--kv-cache-dtype", "fp9"), 1),
        (("Qwen/Qwen3-4B",), 0),
        (("--max-model-len.tokens=4",), 0),
    ],
)
def test_what_vllm_would_end_on_is_an_error_at_its_place(
    args: tuple[str, ...], place: int
) -> None:
    errors = [remark for remark in remarks(*args) if remark.level == "Error"]
    assert [remark.path for remark in errors] == [f"args[{place}]"]
    golden(errors[0].text)


@pytest.mark.parametrize(("args", "text"), [(("--disable-log-stats",), "metrics")])
def test_what_works_against_the_measurement_is_a_warning(
    args: tuple[str, ...], text: str
) -> None:
    warnings = [remark for remark in remarks(*args) if remark.level == "Warning"]
    assert len(warnings) == 1
    assert text in warnings[0].text


def test_the_last_of_a_repeated_flag_holds_with_a_remark() -> None:
    (only,) = remarks("--max-num-seqs=8", "--max-num-seqs=16")
    assert (only.level, only.path) == ("Note", "args[1]")


def test_an_abbreviation_is_understood_and_said() -> None:
    (only,) = remarks("--enforce-eag")
    assert only.level == "Note"
    assert "--enforce-eager" in only.text


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.32.0", "0.32"),
        ("registry:5000/vllm/vllm-openai:0.11.2-cu128", "0.11"),
        ("vllm/vllm-openai:v0.32.1@sha256:abc", "0.32"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai@sha256:abc", None),
        ("registry:5000/vllm", None),
        ("registry:5000/vllm:v0.32.0", "0.32"),
        ("registry.corp/mirror/vllm/vllm-openai-cpu:v0.32.0", "0.32"),
        ("vllm-openai:v0.32.0", "0.32"),
        ("lmcache/vllm-openai:v0.3.9", None),
        ("vllm/vllm-openai-rocm:v0.33.0", "0.33"),
        ("vllm/vllm-omni:v0.14.0", None),
        ("vllm/vllm-router:v0.1.2", None),
        ("localhost/vllm-cpu-release-repo:v0.32.0", "0.32"),
        ("vllm/vllm-openai:v0.32.0rc1", None),
        ("nvcr.io/nvidia/vllm:25.09.1-py3", None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.3.0", None),
        ("registry.redhat.io/rhaiis/vllm-cuda-rhel9:3.2.2", None),
        ("registry.corp/serving:v0.32.0", None),
    ],
)
def test_the_version_is_that_of_the_tag(image: str, version: str | None) -> None:
    assert version_of_image(image) == version


@pytest.mark.parametrize("image", ["vllm/vllm-openai:v0.11.0", "vllm:latest"])
def test_flags_of_unknown_versions_are_not_checked(image: str) -> None:
    (only,) = remarks("--no-such-flag", image=image)
    assert only.level == "NotChecked"
    golden(only.text)


def test_the_tag_goes_before_the_users_word() -> None:
    """A sweep has several images, and one option."""
    assert remarks("--no-such-flag", image=IMAGE, version="1.0") == remarks(
        "--no-such-flag"
    )


def test_the_user_may_say_the_version() -> None:
    (only,) = remarks("--no-such-flag", image="vllm:latest", version="0.32.0")
    assert only.level == "Error"


def test_the_users_word_holds_where_the_tag_is_of_something_else() -> None:
    image = "lmcache/vllm-openai:v0.3.9"
    (only,) = remarks("--no-such-flag", image=image, version="0.32.0")
    assert only.level == "Error"
    assert entry_point_remarks(image, (), VLLM, version="0.32") == []


def test_without_arguments_there_is_nothing_to_check() -> None:
    assert remarks(image="vllm:latest") == []


def test_the_table_is_whole() -> None:
    assert known_versions() == ("0.32", "0.33")
    table = table_for("0.32.0")
    assert table is not None
    assert len(table.flags) > 300
    assert table.flags["-tp"] == table.flags["--tensor-parallel-size"]
    assert table.flags["--enforce-eager"].takes == "nothing"
    assert table.flags["--compilation-config"].is_object


TABLE = FlagTable(
    "9.9",
    {
        "--switch": Flag("nothing"),
        "--no-switch": Flag("nothing"),
        "--no-enable-log": Flag("nothing"),
        "--one": Flag("one"),
        "-o": Flag("one"),
        "--maybe": Flag("maybe"),
        "--many": Flag("many", ("a", "b")),
        "--choice": Flag("one", ("red", "green", "grey")),
        "--level": Flag("maybe", ("low", "high")),
        "--object": Flag("one", is_object=True),
        "--length-limit": Flag("one"),
        "--length-unit": Flag("one"),
        "--optimization-level": Flag("one"),
    },
)


def findings_of(*args: str) -> list[tuple[str, str, str]]:
    return [
        (remark.level, remark.path, remark.text)
        for remark in table_remarks(args, TABLE, path="args")
    ]


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--switch",),
        ("--switch", "--no-switch"),
        ("--one", "1"),
        ("--one=1",),
        ("--one=",),
        ("--one", "-1"),
        ("-o", "1"),
        ("-o=1",),
        ("--maybe",),
        ("--maybe", "x"),
        ("--maybe=x",),
        ("--maybe", "--switch"),
        ("--many",),
        ("--many", "a"),
        ("--many", "a", "b", "a"),
        ("--many", "a", "--switch"),
        ("--choice=red",),
        ("--level",),
        ("--level", "low"),
        ("--object", "{}"),
        ("--object.key", "1"),
        ("--object.key=1", "--object.other=2"),
        ("--object.key=1", "--object.key=2"),
        ("-O3", "--switch"),
        ("-Oanything",),
        ("--length_limit=1",),
        ("--object.a_b=1",),
    ],
    ids=" ".join,
)
def test_flags_that_argparse_accepts_have_no_remark(args: tuple[str, ...]) -> None:
    assert findings_of(*args) == []


@pytest.mark.parametrize(
    ("args", "remark"),
    [
        (
            ("--switch=yes",),
            (
                "Error",
                "args[0]",
                "--switch is a switch and takes no value, but is given 'yes'",
            ),
        ),
        (
            ("--switch=",),
            (
                "Error",
                "args[0]",
                "--switch is a switch and takes no value, but is given ''",
            ),
        ),
        (
            ("--switch", "on"),
            (
                "Error",
                "args[1]",
                "'on' is neither a flag nor a flag's value; the operator sets the model",
            ),
        ),
        (
            ("--one", "1", "2"),
            (
                "Error",
                "args[2]",
                "'2' is neither a flag nor a flag's value; the operator sets the model",
            ),
        ),
        (
            ("--maybe", "1", "2"),
            (
                "Error",
                "args[2]",
                "'2' is neither a flag nor a flag's value; the operator sets the model",
            ),
        ),
        (
            ("--many=a", "b"),
            (
                "Error",
                "args[1]",
                "'b' is neither a flag nor a flag's value; the operator sets the model",
            ),
        ),
        (("--one",), ("Error", "args[0]", "--one needs a value")),
        (
            ("--switch", "--one", "--switch=1"),
            ("Error", "args[1]", "--one needs a value"),
        ),
        (
            ("--choice=blue",),
            (
                "Error",
                "args[0]",
                "--choice does not take 'blue'; it takes red, green, grey",
            ),
        ),
        (
            ("--choice", "gren"),
            (
                "Error",
                "args[1]",
                "--choice does not take 'gren'; did you mean green?",
            ),
        ),
        (
            ("--many", "a", "c"),
            ("Error", "args[2]", "--many does not take 'c'; it takes a, b"),
        ),
        (
            ("--level", "hihg"),
            (
                "Error",
                "args[1]",
                "--level does not take 'hihg'; did you mean high?",
            ),
        ),
        (
            ("--one.key=1",),
            (
                "Error",
                "args[0]",
                "--one does not take dotted keys: its value is not a JSON object",
            ),
        ),
        (
            ("--oone=1",),
            (
                "Error",
                "args[0]",
                "vLLM 9.9 has no flag --oone; did you mean --one?",
            ),
        ),
        (
            ("--nothing-like-it",),
            ("Error", "args[0]", "vLLM 9.9 has no flag --nothing-like-it"),
        ),
        (
            ("--disable-log",),
            (
                "Error",
                "args[0]",
                "vLLM 9.9 has no flag --disable-log; did you mean --no-enable-log?",
            ),
        ),
        (("-x",), ("Error", "args[0]", "vLLM 9.9 has no flag -x")),
        (
            ("--swi",),
            (
                "Note",
                "args[0]",
                "--swi is short for --switch: write the whole name, because another "
                "version may have two flags that begin like this",
            ),
        ),
        (
            ("--length-l", "8"),
            (
                "Note",
                "args[0]",
                "--length-l is short for --length-limit: write the whole name, because "
                "another version may have two flags that begin like this",
            ),
        ),
        (
            ("--one=1", "--one=2"),
            ("Note", "args[1]", "--one is given twice; the last one counts"),
        ),
        (
            ("--switch", "--switch"),
            ("Note", "args[1]", "--switch is given twice; the last one counts"),
        ),
    ],
    ids=lambda value: " ".join(value) if value[0] not in ("Error", "Note") else "",
)
def test_what_it_does_not_take_or_what_may_surprise(
    args: tuple[str, ...], remark: tuple[str, str, str]
) -> None:
    assert remark in findings_of(*args)
    assert len([each for each in findings_of(*args) if each[1] == remark[1]]) == 1


def test_an_abbreviation_of_two_flags_is_none() -> None:
    ((level, _, text),) = findings_of("--length-=8")
    assert level == "Error"
    golden(text)


def test_after_an_unknown_flag_its_value_is_passed_over() -> None:
    assert [
        path for _, path, _ in findings_of("--unknown", "value", "--switch=1")
    ] == [
        "args[0]",
        "args[2]",
    ]
    assert [path for _, path, _ in findings_of("--unknown=value", "stray")] == [
        "args[0]",
        "args[1]",
    ]
    assert [path for _, path, _ in findings_of("--unknown", "--switch")] == [
        "args[0]"
    ]


def test_every_fault_is_reported_in_the_order_of_the_words() -> None:
    assert [
        path
        for _, path, _ in findings_of(
            "stray", "--one", "--switch=1", "--choice=blue"
        )
    ] == [
        "args[0]",
        "args[1]",
        "args[2]",
        "args[3]",
    ]


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("--disable_log_stats", "--disable-log-stats"),
        ("--disable-log-stats", "--disable-log-stats"),
    ],
)
def test_flags_that_work_against_the_measurement_are_warned_of(
    word: str, flag: str
) -> None:
    for version in ("0.32", "1.0", None):
        found = flag_remarks(
            ["--seed=1", word],
            VLLM,
            image="vllm:latest",
            version=version,
            path="args",
        )
        warnings = [r for r in found if r.level == "Warning"]
        assert [(r.path, r.text) for r in warnings] == [
            ("args[1]", flag + VLLM.flag_warnings[flag])
        ]


def test_of_a_version_without_a_table_nothing_is_claimed() -> None:
    of_tag = flag_remarks(
        ["--x"], VLLM, image="vllm:v1.2.3", version=None, path="args"
    )
    without = flag_remarks(
        ["--x"], VLLM, image="vllm:latest", version=None, path="args"
    )
    assert [(r.level, r.path, r.text) for r in (*of_tag, *without)] == [
        (
            "NotChecked",
            "args",
            "whether these flags exist in vLLM 1.2: benchrun knows those of 0.32, 0.33",
        ),
        (
            "NotChecked",
            "args",
            "whether these flags exist in vllm:latest, whose tag has no version: use "
            "--vllm-version",
        ),
    ]


@pytest.mark.parametrize(
    ("word", "versions"),
    [
        ("--no-enable-prefix-caching", ["0.32", "0.33"]),
        ("--disable-prefix-caching", ["0.33"]),
        ("--enable-cascade-attn", ["0.33"]),
        ("--monokernel", ["0.33"]),
        ("--max-num-seqs=8", ["0.32", "0.33"]),
    ],
)
def test_a_version_has_flags_of_its_own(word: str, versions: list[str]) -> None:
    taken = [
        version
        for version in known_versions()
        if not remarks(word, image=f"vllm/vllm-openai:v{version}.0")
    ]
    assert taken == versions


@pytest.mark.parametrize("version", known_versions())
def test_every_flag_of_the_real_table_is_taken_by_the_walk(version: str) -> None:
    real = table_for(version)
    assert real is not None
    for name, flag in real.flags.items():
        value = (
            ()
            if flag.takes == "nothing"
            else (flag.choices[0] if flag.choices else "1",)
        )
        assert table_remarks([name, *value], real, path="args") == []


def of_command(*command: str) -> dict[str, dict[str, str]]:
    """What is said of a command, by level."""
    found = checked({"server.command": list(command)})
    return {
        level: said_of(found, level) for level in ("Error", "Warning", "NotChecked")
    }


def test_flags_within_a_command_are_checked_at_their_place() -> None:
    found = of_command(
        "python3",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        "$(MODEL)",
        "--max-model-lem=9",
    )
    assert set(found["Error"]) == {"spec.server.command[5]"}
    assert (
        "did you mean --max-model-len?" in found["Error"]["spec.server.command[5]"]
    )
    assert of_command("vllm", "serve", "$(MODEL)", "--enforce-eager")["Error"] == {}
    assert set(of_command("vllm", "serve", "--disable-log-stats")["Warning"]) >= {
        "spec.server.command[2]"
    }


def test_flags_in_a_script_command_are_not_checked() -> None:
    found = of_command("bash", "-c", "exec vllm serve $(MODEL) --max-model-lem=9")
    assert found["Error"] == {}
    assert "spec.server.command" in found["NotChecked"]


# Servers over several nodes: parallel sizes that the nodes share, and flags that are the
# operator's.

ARGS = "spec.server.args"


def about(
    level: str, *args: str, nodes: int = 2, gpus: int | None = 8
) -> str | None:
    """What is said of the arguments at this level."""
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus is not None else {}
    server = {
        "server.args": list(args),
        "server.nodesPerReplica": nodes,
        "server.resources": resources,
    }
    return messages(checked(server), level).get(ARGS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "args",
    [
        ("--tensor-parallel-size=8", "--pipeline-parallel-size=2"),
        ("-tp", "16"),
        ("-tp=4", "-pp=2", "-dp=2"),
        ("-tp=8", "-pcp", "2"),
    ],
)
def test_sizes_that_two_nodes_of_eight_gpus_share_are_fine(
    args: tuple[str, ...],
) -> None:
    assert (about("Error", *args), about("Warning", *args)) == (None, None)


def test_a_product_that_nodes_cannot_share_is_an_error() -> None:
    assert "8 parallel processes" in str(about("Error", "-tp=8", nodes=3))
    assert "1 parallel processes" in str(about("Error"))


def test_more_processes_than_gpus_on_a_node_is_an_error() -> None:
    text = str(about("Error", "-tp=32"))
    assert (
        "16 parallel processes (tensor 32) on each of 2 nodes, but 8 GPUs" in text
    )


def test_gpus_without_a_process_are_a_warning() -> None:
    assert about("Error", "-tp=8") is None
    assert "of which vLLM uses 4" in str(about("Warning", "-tp=8"))


def test_a_cluster_without_gpus_has_no_gpu_remark() -> None:
    assert (
        about("Error", "-tp=2", gpus=None),
        about("Warning", "-tp=2", gpus=None),
    ) == (
        None,
        None,
    )


def test_a_server_of_one_node_that_fills_its_gpus_has_no_remark() -> None:
    assert (
        about("Error", "-tp=8", nodes=1),
        about("Warning", "-tp=8", nodes=1),
    ) == (None, None)


def test_a_value_that_is_no_number_is_reported_and_not_raised() -> None:
    assert "tensor-parallel-size" in str(about("Error", "-tp=many"))


# Servers with a CPU limit, at which the kernel stops them.

LIMITED = {"limits": {"cpu": "4", "nvidia.com/gpu": 1}}
UNLIMITED = {"limits": {"memory": "9Gi"}, "requests": {"cpu": "4"}}
SPLIT = {"kvTransfer": {"connector": "NixlConnector"}}


def named(**changes: Any) -> set[str]:
    """The fields of CPU limits that a note names."""
    changes = {name.replace("_", "."): value for name, value in changes.items()}
    return {
        path
        for path in messages(checked(changes), "Note")
        if path.endswith("limits.cpu")
    }


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"server_resources": LIMITED}, {"spec.server.resources.limits.cpu"}),
        ({"server_resources": UNLIMITED}, set()),
        (
            {
                "server_disaggregated": {
                    **SPLIT,
                    "prefill": {"resources": LIMITED},
                    "decode": {"resources": UNLIMITED},
                }
            },
            {"spec.server.disaggregated.prefill.resources.limits.cpu"},
        ),
    ],
)
def test_the_limit_of_each_role_is_named(
    changes: dict[str, Any], fields: set[str]
) -> None:
    assert named(**changes) == fields


# Arguments of an engine without API server are read like a server's, and told at their own field.


def offline(*args: str) -> dict[str, Any]:
    return {
        "server": absent(),
        "offline": {"image": "vllm/vllm-openai:v0.32.0", "args": list(args)},
        "workloads.0.load": {"requestRates": ["inf"]},
    }


def test_a_flag_that_vllm_has_not_is_reported_at_its_place() -> None:
    errors = messages(
        checked(offline("--max-model-len=4096", "--max-num-sequences=4")), "Error"
    )
    assert list(errors) == ["spec.offline.args[1]"]
    assert "has no flag --max-num-sequences" in errors["spec.offline.args[1]"]


def test_unknown_cache_size_is_reported_for_offline_runs() -> None:
    paths = {remark.path for remark in checked(offline()).remarks}
    assert "spec.offline.args" in paths
    assert not any(path.startswith("spec.server") for path in paths)


def test_prompts_longer_than_its_context_are_reported_before_a_gpu_is_taken() -> (
    None
):
    changes = offline("--max-model-len=100") | {
        "workloads.0.dataset": {"random": {"inputTokens": 128, "outputTokens": 16}}
    }
    assert any(
        path.startswith("spec.workloads[0]")
        for path in messages(checked(changes), "Error")
    )


# Options of the load client among flags of the server, abbreviations, and images.


@pytest.mark.parametrize(
    ("option", "field"),
    [
        ("--max-concurrency", "load.concurrencies"),
        ("--max_concurrency=8", "load.concurrencies"),
        ("--num-prompts", "workloads[].requests"),
        ("--request-rate=4", "load.requestRates"),
        ("--random-input-len", "dataset.random"),
        ("--random-input", "dataset.random"),
        ("--sharegpt-output-len", "dataset.shareGPT"),
        ("--dataset-name=random", "workloads[].dataset"),
        ("--goodput", "objectives"),
        ("--save-result", "remove the option"),
    ],
)
@pytest.mark.parametrize("image", [IMAGE, "vllm:latest"])
def test_an_option_of_the_client_is_an_error_that_names_the_field(
    option: str, field: str, image: str
) -> None:
    if option == "--random-input" and image != IMAGE:
        return  # The beginning of a name is known where all names are.
    errors = [
        each for each in remarks(option, image=image) if each.level == "Error"
    ]
    assert [each.path for each in errors] == ["args[0]"]
    assert field in errors[0].text


@pytest.mark.parametrize(
    "option", ["--seed=1", "--tokenizer-mode=hf", "--lora-modules", "-tp=2"]
)
def test_what_both_have_is_the_servers(option: str) -> None:
    assert [each for each in remarks(option) if "vllm bench" in each.text] == []


@pytest.mark.parametrize(
    ("word", "level"),
    [
        ("--max-num-batched", "Note"),
        ("--max_num_batched", "Note"),
        ("--no-enable-prefix", "Note"),
        ("--speculative-conf.method=ngram", "Note"),
        ("--max-num", "Error"),
        ("--max-num=8", "Error"),
    ],
)
def test_the_beginning_of_a_name_is_told_with_a_remedy(
    word: str, level: str
) -> None:
    (first, *_) = remarks(word, *(["8"] if word.endswith("batched") else []))
    assert first.level == level
    assert "write the whole name" in first.text


@pytest.mark.parametrize(
    ("image", "level"),
    [
        ("vllm/vllm-openai:v0.8.4", "Error"),
        ("vllm/vllm-openai:v0.11.0", "Error"),
        ("vllm/vllm-openai:v0.11.0-x86_64", "Error"),
        ("vllm/vllm-openai:v0.11.1", None),
        ("vllm/vllm-openai:v0.11.2@sha256:abc", None),
        ("vllm/vllm-openai:v1.0.0", None),
        ("vllm/vllm-openai:latest", "NotChecked"),
        ("vllm/vllm-openai@sha256:abc", "NotChecked"),
        ("registry:5000/team/vllm:v0.8", "NotChecked"),
        ("vllm:0.99999999999999999999.1", "NotChecked"),
        ("lmcache/vllm-openai:v0.3.9", "NotChecked"),
        ("ghcr.io/llm-d/llm-d-cuda:v0.3.0", "NotChecked"),
    ],
)
def test_an_image_before_vllm_serve_needs_a_command(
    image: str, level: str | None
) -> None:
    path = "spec.server.image"
    assert [each.level for each in entry_point_remarks(image, (), VLLM)] == (
        [level] if level else []
    )
    command = {"server.image": image, "server.command": ["vllm", "serve"]}
    found = checked(command)
    assert all(each.path != path for each in found.remarks)


def test_the_users_word_on_the_version_holds_for_the_image() -> None:
    (only,) = entry_point_remarks("vllm:latest", (), VLLM, version="0.10.2")
    assert only.level == "Error"
    assert entry_point_remarks("vllm:latest", (), VLLM, version="0.32") == []


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("http://m:8000/v1", "http://m:8000"),
        ("http://m:8000/v1/", "http://m:8000"),
        ("https://m/team/v1/chat/completions", "https://m/team"),
        ("http://m/v1/models", "http://m"),
        ("http://m:8000", None),
        ("http://m/v1beta", None),
        ("http://v1/api", None),
    ],
)
def test_a_url_with_the_path_of_the_api_is_an_error(
    url: str, base: str | None
) -> None:
    found = messages(
        checked({"server": absent(), "endpoint": {"url": url}}), "Error"
    )
    text = found.get("spec.endpoint.url")
    assert (text is None) is (base is None)
    assert base is None or str(text).endswith(f"so that the URL is {base}")


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"client.maxNumSeqs": 8}, "--max-num-seqs"),
        ({"workloads.0.load.maxModelLen": 8}, "--max-model-len"),
        ({"workloads.0.tensor_parallel_size": 8}, "--tensor-parallel-size"),
        ({"workloads.0.numPrompts": 8}, "workloads[].requests"),
        ({"server.maxConcurrency": 8}, "load.concurrencies"),
    ],
)
def test_a_field_called_like_a_flag_says_where_it_belongs(
    changes: dict[str, Any], hint: str
) -> None:
    (text,) = messages(checked(changes), "Error").values()
    assert "unknown field" in text
    assert hint in text


def test_flags_of_each_role_are_looked_at() -> None:
    split = {
        "prefill": {"args": ["--no-such-flag"]},
        "decode": {"args": ["--num-prompts=4"]},
        "kvTransfer": {"connector": "NixlConnector"},
    }
    changes = {"server.image": IMAGE, "server.disaggregated": split}
    assert {*messages(checked(changes), "Error")} == {
        "spec.server.disaggregated.prefill.args[0]",
        "spec.server.disaggregated.decode.args[0]",
    }
