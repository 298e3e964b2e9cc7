"""The platform's defaults before a real API server: a run keeps those that it began with, and what
Kubernetes refuses of them is told soon."""

import json
from pathlib import Path
from typing import Any

import pytest
from kit.played import played_cluster

VARIABLE = "BENCHRUN_RUN_DEFAULTS"
TOLD_SECONDS = 10.0


def variables(**defaults: Any) -> dict[str, str]:
    return {VARIABLE: json.dumps(defaults)}


def role(pool: str) -> dict[str, Any]:
    return {"nodeSelector": {"example.com/pool": pool}}


@pytest.mark.timeout(300)
async def test_another_operator_with_other_defaults_changes_nothing_of_a_run(
    definition: str, tmp_path: Path
) -> None:
    settings = variables(server=role("before"), client={}, copyLabels=["team"])
    async with played_cluster(tmp_path, settings=settings) as played:
        run = await played.apply("kept")
        await played.gets(run, "Pod", "client")
        await played.operator.kill()
        settings |= variables(server=role("after"), userFromNamespace=True)
        await played.operator.start()
        await played.client_starts(run)
        server = await played.gets(run, "Deployment", "server")
        pod = server["spec"]["template"]["spec"]
        assert pod["nodeSelector"] == {"example.com/pool": "before"}
        assert "runAsUser" in pod["securityContext"]


@pytest.mark.timeout(300)
async def test_what_kubernetes_refuses_of_them_ends_the_run_with_their_names(
    definition: str, tmp_path: Path
) -> None:
    wrong = {"tolerations": [{"key": "gpu", "operator": "Sometimes"}]}
    async with played_cluster(tmp_path, settings=variables(client=wrong)) as played:
        run = await played.apply("refused")
        status = await played.finished(run, seconds=TOLD_SECONDS)
        assert status["phase"] == "Failed"
        assert "tolerations" in status["message"]
        assert "platform's defaults" in status["message"]
        for kind, part in (("Job", "client"), ("Deployment", "server")):
            assert played.children(run, kind, part) == []
