"""The sweep of tests/long over two engines: its variants are planned as they will be measured."""

from pathlib import Path

import yaml
from benchrun.api.sweep import BenchmarkSweepSpec
from benchrun.plan import load_points, planned_variants
from unit.plan.objects import objects
from unit.plan.specs import OWNER

MANIFEST = Path(__file__).parents[2] / "long/llamacpp/two-engines.yaml"


def test_each_variant_starts_its_own_engine_with_its_own_words() -> None:
    body = yaml.safe_load(MANIFEST.read_text())
    variants = planned_variants(BenchmarkSweepSpec.model_validate(body["spec"]))
    commands = {}
    for variant in variants:
        made = objects(OWNER, variant.spec)
        (server,) = (each for each in made if each["kind"] == "Deployment")
        (container,) = server["spec"]["template"]["spec"]["containers"]
        names = {each["name"] for each in container["env"]}
        commands[variant.name] = (
            container["args"],
            "VLLM_CPU_OMP_THREADS_BIND" in names,
        )
    vllm, llamacpp = commands["vllm"], commands["llamacpp"]
    assert {"/models/tiny", "--max-num-seqs=4"} <= set(vllm[0])
    assert vllm[1]
    assert llamacpp[0][:2] == ["--model", "/opt/models/tiny.gguf"]
    assert not any("max-num-seqs" in word for word in llamacpp[0])
    assert not llamacpp[1]
    # The same requests, by the same tokenizer.
    first, second = (load_points(each.spec) for each in variants)
    assert first == second
    tokenizers = {
        each.spec.model.tokenizer or each.spec.model.source.path.path
        for each in variants
        if each.spec.model.source.path is not None
    }
    assert tokenizers == {"/models/tiny"}
