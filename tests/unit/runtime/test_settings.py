"""Settings come from BENCHRUN_* variables; what can't be used is named."""

import pytest
from benchrun.decide import Exporters
from benchrun.runtime.settings import BadSetting, OperatorSettings

IMAGE = {"BENCHRUN_CLIENT_IMAGE": "registry.example/client:1"}


def test_defaults_need_the_image_only() -> None:
    assert OperatorSettings.from_environment(IMAGE) == OperatorSettings(
        client_image="registry.example/client:1"
    )


def test_everything_can_be_set() -> None:
    environment = IMAGE | {
        "BENCHRUN_NAMESPACES": "lab, prod,lab",
        "BENCHRUN_CLIENT_IMAGE_PULL_POLICY": "Never",
        "BENCHRUN_LISTEN": "127.0.0.1:9000",
        "BENCHRUN_LOG_LEVEL": "DEBUG",
        "BENCHRUN_LOG_FORMAT": "plain",
        "BENCHRUN_WORKERS": "4",
        "BENCHRUN_RESYNC_SECONDS": "60",
        "BENCHRUN_RESULT_RUNS": "0",
        "BENCHRUN_POD_ROAD": "Proxy",
        "BENCHRUN_UNSCHEDULABLE_GRACE_SECONDS": "0",
        "BENCHRUN_GPU_EXPORTER_NAMESPACE": "gpu-operator",
        "BENCHRUN_GPU_EXPORTER_SELECTOR": "app=dcgm,example.com/tier=gpu",
        "BENCHRUN_GPU_EXPORTER_PORT": "9401",
        "BENCHRUN_CPU_EXPORTER_NAMESPACE": "node-stats",
        "BENCHRUN_CPU_EXPORTER_SELECTOR": "app=stats",
        "BENCHRUN_CPU_EXPORTER_PORT": "8081",
        "BENCHRUN_RUN_METRICS": "true",
        "BENCHRUN_ARCHIVE": "true",
        "BENCHRUN_NAMESPACE": "benchrun",
        "BENCHRUN_LEADER_ELECTION": "true",
        "BENCHRUN_LEASE": "bench-benchrun",
        "BENCHRUN_POD_NAME": "bench-benchrun-7d4b9c-x2x4z",
    }
    assert OperatorSettings.from_environment(environment) == OperatorSettings(
        client_image="registry.example/client:1",
        client_image_pull_policy="Never",
        namespaces=("lab", "prod"),
        listen=("127.0.0.1", 9000),
        log_level="DEBUG",
        log_format="plain",
        workers=4,
        resync_seconds=60,
        result_runs=0,
        pod_road="Proxy",
        unschedulable_grace_seconds=0,
        gpu_exporter_namespace="gpu-operator",
        gpu_exporter_selector="app=dcgm,example.com/tier=gpu",
        gpu_exporter_port=9401,
        cpu_exporter_namespace="node-stats",
        cpu_exporter_selector="app=stats",
        cpu_exporter_port=8081,
        run_metrics=True,
        archive=True,
        operator_namespace="benchrun",
        leader_election=True,
        lease_name="bench-benchrun",
        pod_name="bench-benchrun-7d4b9c-x2x4z",
    )


def test_a_namespace_alone_says_where_exporters_are() -> None:
    settings = OperatorSettings.from_environment(
        IMAGE | {"BENCHRUN_GPU_EXPORTER_NAMESPACE": "gpu-operator"}
    )
    assert settings.exporters == {
        "gpu": Exporters("gpu-operator", "app=nvidia-dcgm-exporter", 9400)
    }


def test_no_namespaces_is_the_whole_cluster() -> None:
    assert (
        OperatorSettings.from_environment(
            IMAGE | {"BENCHRUN_NAMESPACES": " , "}
        ).namespaces
        == ()
    )


def test_ipv6_address_to_listen_on() -> None:
    assert OperatorSettings.from_environment(
        IMAGE | {"BENCHRUN_LISTEN": "[::]:8080"}
    ).listen == (
        "::",
        8080,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BENCHRUN_CLIENT_IMAGE", ""),
        ("BENCHRUN_CLIENT_IMAGE", "two words"),
        ("BENCHRUN_GPU_EXPORTER_NAMESPACE", "gpu operator"),
        ("BENCHRUN_GPU_EXPORTER_SELECTOR", "app=a b"),
        ("BENCHRUN_GPU_EXPORTER_SELECTOR", "app"),
        ("BENCHRUN_GPU_EXPORTER_PORT", "0"),
        ("BENCHRUN_NAMESPACES", "Lab"),
        ("BENCHRUN_NAMESPACES", "lab;prod"),
        ("BENCHRUN_CLIENT_IMAGE_PULL_POLICY", "Sometimes"),
        ("BENCHRUN_LISTEN", "8080"),
        ("BENCHRUN_LISTEN", "host:port"),
        ("BENCHRUN_LISTEN", "0.0.0.0:70000"),
        ("BENCHRUN_POD_ROAD", "Tunnel"),
        ("BENCHRUN_UNSCHEDULABLE_GRACE_SECONDS", "-1"),
        ("BENCHRUN_LOG_LEVEL", "info"),
        ("BENCHRUN_LOG_FORMAT", "xml"),
        ("BENCHRUN_NAMESPACE", "My"),
        ("BENCHRUN_LEADER_ELECTION", "yes"),
        ("BENCHRUN_LEASE", ""),
        ("BENCHRUN_LEASE", "A"),
        ("BENCHRUN_RUN_METRICS", "1"),
        ("BENCHRUN_WORKERS", "0"),
        ("BENCHRUN_WORKERS", "many"),
        ("BENCHRUN_RESYNC_SECONDS", "1"),
        ("BENCHRUN_RESULT_RUNS", "101"),
    ],
)
def test_bad_value_is_rejected_by_name(name: str, value: str) -> None:
    with pytest.raises(BadSetting, match=f"{name} is '{value}': must be"):
        OperatorSettings.from_environment(IMAGE | {name: value})


def test_the_operators_own_namespace_is_known_without_a_setting() -> None:
    """Its key and its Lease are there."""
    assert (
        OperatorSettings.from_environment(IMAGE).operator_namespace
        == "benchrun-system"
    )


def test_missing_image_is_rejected_by_name() -> None:
    with pytest.raises(BadSetting, match="BENCHRUN_CLIENT_IMAGE"):
        OperatorSettings.from_environment({})


def test_the_platforms_defaults_are_json() -> None:
    text = '{"server": {"nodeSelector": {"pool": "gpu"}}, "copyLabels": ["team"]}'
    found = OperatorSettings.from_environment(
        IMAGE | {"BENCHRUN_RUN_DEFAULTS": text}
    ).run_defaults
    assert found.server.node_selector == {"pool": "gpu"}
    assert found.copy_labels == ["team"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"server": {"nodeSelectors": {}}}', "runs.server.nodeSelectors"),
        ('{"client": {"nodeSelector": {"a": 1}}}', "runs.client.nodeSelector.a"),
        ('{"copyLabels": ["benchrun.dev/run"]}', "benchrun's own: remove it"),
        (
            '{"server": {"env": [{"name": "VLLM_API_KEY", "value": "1"}]}}',
            "runs.server.env: VLLM_API_KEY",
        ),
        ("[", "runs: "),
        ('{"server": {"annotations": {"a": "%s"}}}' % ("x" * 50_000), "limit is"),
    ],
)
def test_wrong_defaults_stop_the_operator_with_field_and_remedy(
    text: str, words: str
) -> None:
    with pytest.raises(BadSetting) as error:
        OperatorSettings.from_environment(IMAGE | {"BENCHRUN_RUN_DEFAULTS": text})
    assert words in str(error.value)
    assert len(str(error.value)) < 500
    assert "BENCHRUN_RUN_DEFAULTS" in str(error.value)
