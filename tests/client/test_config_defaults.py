"""What a model's class fills in for keys that config.json leaves out: our defaults are those of the
transformers library."""

import json
import subprocess

from benchrun.sizing import DEFAULTS
from client.processes import VLLM_PYTHON

ASK = """
import json, sys
from transformers import AutoConfig

asked = json.load(sys.stdin)
print(json.dumps({name: {key: getattr(AutoConfig.for_model(name), key) for key in keys} for name, keys in asked.items()}))
"""


def test_defaults_are_those_of_the_classes() -> None:
    asked = json.dumps({name: list(values) for name, values in DEFAULTS.items()})
    done = subprocess.run(
        [VLLM_PYTHON, "-c", ASK], input=asked, stdout=subprocess.PIPE, text=True, check=True
    )
    assert json.loads(done.stdout.splitlines()[-1]) == DEFAULTS
