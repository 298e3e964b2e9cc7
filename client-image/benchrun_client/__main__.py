"""`python -m benchrun_client --plan plan.json`: measure one run, keep its records until stored.

Exit codes: 0 if all is measured and its storage acknowledged, 2 if the plan is wrong or names
something that is missing or unusable, 1 for every other failure, 128 + n on a signal.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import NoReturn

from benchrun_client.contract import RECORD_PORT
from benchrun_client.preparation import Preparation
from benchrun_client.processes import end_on_signals
from benchrun_client.run import ClientRun
from benchrun_client.shards.first_shard import (
    IN_THE_POD,
    INDEX_VARIABLE,
    shard_setup,
)
from benchrun_client.shards.shard_run import ShardRun


def main() -> NoReturn:
    parser = argparse.ArgumentParser(prog="benchrun_client", description=__doc__)
    parser.add_argument(
        "--plan", type=Path, required=True, help="the plan, a JSON file"
    )
    parser.add_argument(
        "--port", type=int, default=RECORD_PORT, help="port of the record server"
    )
    parser.add_argument(
        "--address", default="0.0.0.0", help="address of the record server"
    )
    parser.add_argument(
        "--shards",
        type=int,
        default=1,
        help="number of processes that send the load together",
    )
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        help="number of these processes in this pod",
    )
    parser.add_argument(
        "--shard",
        type=int,
        help=f"number of this process; default: the first of the pod, by ${INDEX_VARIABLE}",
    )
    parser.add_argument(
        "--gate",
        default=IN_THE_POD,
        help="HOST:PORT at which the others find shard 0 (default: %(default)s)",
    )
    parser.add_argument(
        "--preparation-env",
        default="",
        metavar="NAMES",
        help="variables to remove once tokenizer and data are found, separated by commas",
    )
    arguments = parser.parse_args()
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    end_on_signals()
    setup = shard_setup(
        shards=arguments.shards,
        processes=arguments.processes,
        shard=arguments.shard,
        gate=arguments.gate,
    )
    names: str = arguments.preparation_env
    kind = ClientRun if setup.shard.is_first else ShardRun
    kind(
        plan_path=arguments.plan,
        address=arguments.address,
        port=arguments.port,
        setup=setup,
        preparation=Preparation(list(filter(None, names.split(",")))),
    ).to_the_end()


if __name__ == "__main__":
    main()
