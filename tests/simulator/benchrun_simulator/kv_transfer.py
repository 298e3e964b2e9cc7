"""Prompts prefilled by one server and fetched by another: `--kv-transfer-config`, as counting.

There are two ways, as in vLLM's connectors. With a `shared_storage_path` (ExampleConnector) every
server leaves a mark for each prompt that it has prefilled, and finds the marks of the others by the
prompt; roles mean nothing. Otherwise (NIXL and its kin) the request says so: a producer answers
`do_remote_decode` with `kv_transfer_params`, and a consumer that is given these gets the prompt's
blocks. No tokens are kept; fetching takes no time.
"""

import json
from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchrun_simulator.prefix_cache import token_bytes
from benchrun_simulator.refusals import engine_failed

STORED = "ExampleConnector"
CONNECTORS = frozenset(
    {
        *(
            STORED,
            "ExampleHiddenStatesConnector",
            "LMCacheConnectorV1",
            "LMCacheMPConnector",
            "NixlConnector",
        ),
        *(
            "NixlPullConnector",
            "NixlPushConnector",
            "MultiConnector",
            "HiSparseConnector",
            "MoRIIOConnector",
        ),
        *(
            "OffloadingConnector",
            "DecodeBenchConnector",
            "MooncakeConnector",
            "MooncakeStoreConnector",
        ),
        *("FlexKVConnectorV1", "SimpleCPUOffloadConnector", "HF3FSKVConnector"),
    }
)
FIELDS = frozenset(
    {
        *(
            "kv_connector",
            "kv_role",
            "engine_id",
            "kv_port",
            "kv_buffer_device",
            "kv_connector_extra_config",
        ),
        *(
            "kv_connector_module_path",
            "enable_permute_local_kv",
            "kv_load_failure_policy",
        ),
    }
)
ROLES = ("kv_producer", "kv_both", "kv_consumer")
DEFAULT_FOLDER = "/tmp"
_COMPLAINTS = {
    "Expecting property name enclosed in double quotes": "key must be a string",
    "Expecting value": "expected value",
    "Expecting ':' delimiter": "expected `:`",
    "Expecting ',' delimiter": "expected `,` or `}`",
    "Extra data": "trailing characters",
}
ENGINE = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class KvTransfer:
    """One server's part in handing over blocks."""

    role: str
    folder: Path | None
    """Where marks are left and looked for; None: requests say what is there."""
    fails: bool = False
    """Nothing is ever found, so that everything is computed once more."""

    @property
    def consumes(self) -> bool:
        return self.role != "kv_producer"

    def prefilled_elsewhere(
        self, prompt: list[int], params: Mapping[str, Any], *, block_size: int
    ) -> int:
        """Return how many of the prompt's first tokens another server has."""
        if self.fails:
            return 0
        whole = max(len(prompt) - 2, 0) // block_size * block_size
        if self.folder is not None:
            return whole if whole and self._mark(prompt, whole).exists() else 0
        handed_over = (
            self.consumes
            and params.get("do_remote_prefill")
            and params.get("remote_engine_id")
        )
        return whole if handed_over else 0

    def prefilled(self, prompt: list[int], *, block_size: int) -> None:
        """Leave the mark of a prompt that this server has computed."""
        # One token more than where it is looked for: real marks of a prompt of whole blocks and one
        # token are never found.
        whole = max(len(prompt) - 1, 0) // block_size * block_size
        if self.folder is not None and whole:
            self._mark(prompt, whole).touch()

    def answer(
        self, params: Mapping[str, Any], *, request_id: str
    ) -> dict[str, object] | None:
        """Return where the blocks are, as an answer says it; None if nothing is handed over."""
        if (
            self.folder is not None
            or self.role == "kv_consumer"
            or not params.get("do_remote_decode")
        ):
            return None
        return {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [0],
            "remote_engine_id": ENGINE,
            "remote_request_id": request_id,
            "remote_host": "127.0.0.1",
            "remote_port": 5600,
            "tp_size": 1,
        }

    def _mark(self, prompt: list[int], tokens: int) -> Path:
        assert self.folder is not None
        return self.folder / sha256(token_bytes(prompt[:tokens])).hexdigest()


def config(text: str) -> dict[str, Any]:
    """Read the flag's value.

    Raises ArgumentTypeError, of which argparse makes a usage error, in vLLM's words.
    """
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        kind = f"[type=json_invalid, input_value={text!r}, input_type=str]"
        more = "    For further information visit https://errors.pydantic.dev/2.14/v/json_invalid"
        raise _invalid(
            f"  Invalid JSON: {_complaint(error)} {kind}\n{more}"
        ) from None
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise _invalid(
            f"  Input should be an object [type=dataclass_type, input_value={found!r}, "
            f"input_type={kind}]"
        )
    for name in found.keys() - FIELDS:
        raise _invalid(
            f"{name}\n  Unexpected keyword argument [type=unexpected_keyword_argument]"
        )
    role = found.get("kv_role")
    connector = found.get("kv_connector")
    if role is not None and role not in ROLES:
        raise _invalid(
            "kv_role\n  Input should be 'kv_producer', 'kv_both' or 'kv_consumer' "
            f"[input_value={role!r}]"
        )
    if connector is not None and role is None:
        raise _invalid(
            "  Value error, Please specify kv_role when kv_connector is set, supported roles are "
            f"{ROLES}"
        )
    return found


def transfer(found: Mapping[str, Any] | None, *, fails: bool) -> KvTransfer | None:
    """Build a server's part from such a configuration; None if it hands nothing over.

    Raises Refusal for a connector that vLLM does not know.
    """
    if found is None or found.get("kv_connector") is None:
        return None
    connector = found["kv_connector"]
    if connector not in CONNECTORS and not found.get("kv_connector_module_path"):
        raise engine_failed(f"ValueError: Unsupported connector type: {connector}")
    extra = found.get("kv_connector_extra_config") or {}
    folder = (
        Path(extra.get("shared_storage_path", DEFAULT_FOLDER))
        if connector == STORED
        else None
    )
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return KvTransfer(role=found["kv_role"], folder=folder, fails=fails)


def _complaint(error: json.JSONDecodeError) -> str:
    """Return what pydantic says where Python's parser stops."""
    rest = error.doc[error.pos :].strip()
    if not rest:
        inside = "a value" if error.msg == "Expecting value" else "an object"
        return f"EOF while parsing {inside} at line {error.lineno} column {error.colno - 1}"
    return f"{_COMPLAINTS.get(error.msg, error.msg)} at line {error.lineno} column {error.colno}"


def _invalid(words: str) -> ArgumentTypeError:
    return ArgumentTypeError(f"1 validation error for KVTransferConfig\n{words}")
