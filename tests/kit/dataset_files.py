"""Files of datasets in every place they can be: a claim, a URL, an object store, a ConfigMap."""

import csv
import hashlib
import io
import json
from pathlib import Path
from typing import Any

from kit.kubectl import Namespace, Object
from kit.runs import SIMULATOR_IMAGE

SERVER = "http://shelf:8000"
TOKEN = "let-me-in"  # part of a URL that must stay secret
KEY_ID = "AKIDOFTHETEST"
SECRET = "wJalr/of+the+test"
REGION = "eu-central-1"
BUCKET = "data"
KEY = "chat/talks (1).json"
"""A key with every kind of character that a signature encodes in its own way."""
_SENTENCE = (
    "slow river under the old bridge carries leaves past a quiet town where nobody counts the "
    "boats that come and go"
)
WORDS = _SENTENCE.split(" ")


def text(number: int) -> str:
    """Return one of many texts that have nothing in common, not even their beginning."""
    turn = number % len(WORDS)
    return f"{number * 7919} {' '.join(WORDS[turn:] + WORDS[:turn])}."


def reviews() -> str:
    """Return a CSV of 14 rows: one is blank, one comes twice."""
    table = io.StringIO()
    rows = [text(n) for n in range(12)]
    csv.writer(table).writerows(
        [["id", "review"], *enumerate([*rows, " ", rows[3]])]
    )
    return table.getvalue()


def questions() -> str:
    """Return JSON Lines of 10 rows."""
    return "".join(
        json.dumps({"prompt": text(100 + n), "output_tokens": 4 + n % 3}) + "\n"
        for n in range(10)
    )


def talks() -> str:
    """Return 9 conversations in ShareGPT's form, one of which has no answer."""

    def turns(number: int) -> list[dict[str, str]]:
        return [
            {"from": "human", "value": text(200 + number)},
            {"from": "gpt", "value": text(300 + number)},
        ]

    return json.dumps(
        [
            *({"conversations": turns(n)} for n in range(8)),
            {"conversations": turns(8)[:1]},
        ]
    )


def notes() -> str:
    """Return JSON Lines of 11 rows."""
    return "".join(json.dumps({"note": text(400 + n)}) + "\n" for n in range(11))


FILES = {
    "reviews.csv": reviews(),
    "questions.jsonl": questions(),
    "talks.json": talks(),
    "notes.jsonl": notes(),
    "broken.jsonl": questions() + "nonsense\n",
}
ON_CLAIM = {"pvc": {"claimName": "shelf", "path": "films/reviews.csv"}}
AT_URL = {"url": f"{SERVER}/files/questions.jsonl?token={TOKEN}"}
IN_CONFIG_MAP = {"configMap": {"name": "shelf", "key": "notes.jsonl"}}


def in_store(*, secret: str = "store") -> dict[str, Any]:
    """Return the source of the conversations in the object store, with the keys of that Secret."""
    place = {"bucket": BUCKET, "key": KEY, "endpoint": SERVER, "region": REGION}
    return {"s3": {**place, "credentialsSecretRef": {"name": secret}}}


def sha256(file: str) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(FILES[file].encode()).hexdigest()


def put_everywhere(namespace: Namespace) -> None:
    """Put the files where the sources above say they are, and wait until all can be read."""
    namespace.apply(*_manifests())
    namespace.kubectl("wait", "pod/shelf", "--for=condition=Ready", "--timeout=60s")


def _manifests() -> tuple[Object, ...]:
    program = (Path(__file__).parent / "file_server.py").read_text()
    # As long as the right secret, and wrong at its end.
    wrong = SECRET[:-1] + "T"
    return (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "shelf"},
            "data": FILES,
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "program"},
            "data": {"serve.py": program},
        },
        *(
            _credentials(name, secret)
            for name, secret in (("store", SECRET), ("no-store", wrong))
        ),
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "shelf"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "shelf"},
            "spec": {"selector": {"app": "shelf"}, "ports": [{"port": 8000}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "shelf", "labels": {"app": "shelf"}},
            "spec": _pod(),
        },
    )


def _credentials(name: str, secret: str) -> Object:
    data = {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": secret}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": data,
    }


def _pod() -> dict[str, Any]:
    """Return a pod that copies the CSV to the claim, as a user would, and then serves the rest."""
    items = [
        {"key": "questions.jsonl", "path": "files/questions.jsonl"},
        {"key": "broken.jsonl", "path": "files/broken.jsonl"},
        {"key": "talks.json", "path": f"store/{BUCKET}/{KEY}"},
    ]
    image = {"image": SIMULATOR_IMAGE, "imagePullPolicy": "IfNotPresent"}
    lay = "mkdir -p /claim/films && cp /files/reviews.csv /claim/films && chmod -R a+rX /claim"
    env = {
        "FOLDER": "/files",
        "KEY_ID": KEY_ID,
        "SECRET": SECRET,
        "REGION": REGION,
        "PYTHONUNBUFFERED": "1",
    }
    return {
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 0,
        "initContainers": [
            {
                **image,
                "name": "lay",
                "command": ["sh", "-euc", lay],
                # The folder behind a new claim belongs to root.
                "securityContext": {"runAsUser": 0},
                "volumeMounts": [
                    {"name": "claim", "mountPath": "/claim"},
                    {"name": "reviews", "mountPath": "/files"},
                ],
            }
        ],
        "containers": [
            {
                **image,
                "name": "serve",
                "command": ["python3", "/program/serve.py"],
                "env": [
                    {"name": name, "value": value} for name, value in env.items()
                ],
                "readinessProbe": {"tcpSocket": {"port": 8000}, "periodSeconds": 1},
                "volumeMounts": [
                    {"name": "served", "mountPath": "/files"},
                    {"name": "program", "mountPath": "/program"},
                ],
            }
        ],
        "volumes": [
            {"name": "claim", "persistentVolumeClaim": {"claimName": "shelf"}},
            {"name": "reviews", "configMap": {"name": "shelf"}},
            {"name": "served", "configMap": {"name": "shelf", "items": items}},
            {"name": "program", "configMap": {"name": "program"}},
        ],
    }
