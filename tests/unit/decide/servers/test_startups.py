"""Where the time to ready went: asked for once, when the server is healthy, and kept."""

from benchrun.api import Startup
from benchrun.decide import Answer, ServerStart, Start
from benchrun_client.engines import ENGINES, StartupPhases
from unit.decide.scenes import (
    HEALTHY,
    SCHEDULED,
    URL_ENDPOINT,
    Scene,
    instant,
    unix_us,
)

VLLM = ENGINES["VLLM"]

WANTED = ServerStart("server-1", "server-1-uid", "server", engine=VLLM)
TOLD = Start(
    StartupPhases(download=1.0, load=2.0, compile=3.0, warm_up=4.0),
    image_pull_seconds=5.0,
)
STARTUP = Startup(
    pod_seconds=10.0,
    image_pull_seconds=5.0,
    download_seconds=1.0,
    load_seconds=2.0,
    compile_seconds=3.0,
    warm_up_seconds=4.0,
)
HEALTHY_SERVER = (
    Scene().server_healthy().pod("server", started_at=instant(SCHEDULED + 10))
)
LOOKED_AT = HEALTHY_SERVER.with_answers({WANTED: Answer(TOLD)})


def wanted(scene: Scene) -> list[ServerStart]:
    """Of what was not looked at yet."""
    return [
        query for query in scene.decide().lookups if isinstance(query, ServerStart)
    ]


def startup(scene: Scene) -> Startup | None:
    (server,) = scene.decide().status.servers
    return server.startup


def test_nobody_looks_before_the_server_is_healthy() -> None:
    assert wanted(Scene().server_loading()) == []


def test_once_it_is_healthy_it_is_looked_at() -> None:
    assert wanted(HEALTHY_SERVER) == [WANTED]
    assert startup(HEALTHY_SERVER) is None


def test_what_was_found_stands_in_the_status_and_is_not_re_requested() -> None:
    assert startup(LOOKED_AT) == STARTUP
    assert wanted(LOOKED_AT) == []


def test_what_the_server_chose_stands_beside_what_it_reports() -> None:
    chosen = {"attention_backend": "FLASH_ATTN", "dtype": "bfloat16"}
    phases = StartupPhases(load=2.0, chosen=chosen)
    answered = HEALTHY_SERVER.with_answers(
        {WANTED: Answer(Start(phases, image_pull_seconds=None))}
    )
    for scene in (answered, answered.settled().operator_restarted()):
        (server,) = scene.decide().status.servers
        assert chosen.items() <= server.reported.items()


def test_whether_the_claim_had_what_is_compiled_is_told_where_there_is_one() -> (
    None
):
    def told(claim: str | None, *, from_cache: bool | None) -> str | None:
        server = dict(Scene().spec["server"]) | {"compileCacheClaim": claim}
        phases = StartupPhases(from_cache=from_cache)
        scene = HEALTHY_SERVER.with_spec(server=server).with_answers(
            {WANTED: Answer(Start(phases, image_pull_seconds=None))}
        )
        found = startup(scene)
        assert found is not None
        return found.compiled

    assert told("compiled", from_cache=True) == "Warm"
    assert told("compiled", from_cache=False) == "Cold"
    assert told("compiled", from_cache=None) is None
    assert told("", from_cache=True) is None


def test_it_is_kept_when_the_operator_starts_anew() -> None:
    repeated = LOOKED_AT.settled().operator_restarted()
    assert startup(repeated) == STARTUP
    assert wanted(repeated) == []


def test_it_is_kept_when_the_run_has_ended() -> None:
    ended = (
        Scene()
        .measuring()
        .pod("server", started_at=instant(SCHEDULED + 10))
        .with_answers({WANTED: Answer(TOLD)})
    )
    status = ended.settled().arrived(0, 1).ended().status
    assert (status.phase, status.servers[0].startup) == ("Completed", STARTUP)


def test_an_unreadable_log_names_the_pod_and_is_not_re_requested() -> None:
    scene = HEALTHY_SERVER.with_answers({WANTED: Answer(None, "500")})
    assert startup(scene) == Startup(pod_seconds=10.0)
    assert wanted(scene) == []


def test_a_restarted_container_has_an_unknown_first_start() -> None:
    loading = (
        Scene()
        .server_loading()
        .pod("server", restarts=1, started_at=instant(SCHEDULED + 10))
        .settled()
    )
    healthy = (
        loading.reports(phase="WarmingUp", healthy_unix_us=unix_us(HEALTHY))
        .at(HEALTHY)
        .settled()
    )
    assert pod_seconds(healthy.with_answers({WANTED: Answer(TOLD)})) is None
    assert pod_seconds(LOOKED_AT.pod("server", started_at=None)) is None


def pod_seconds(scene: Scene) -> float | None:
    found = startup(scene)
    assert found is not None
    return found.pod_seconds


def test_every_replica_has_the_same_entry_and_the_first_is_looked_at() -> None:
    two = (
        Scene()
        .with_spec(server={"image": "v", "replicas": 2})
        .server_healthy()
        .another_server("server-2")
    )
    assert [query.pod for query in wanted(two.at(HEALTHY))] == ["server-1"]


def test_an_endpoint_was_started_by_somebody_else() -> None:
    assert wanted(Scene(spec=URL_ENDPOINT).measuring()) == []
