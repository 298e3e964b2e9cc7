"""Pages in the form of cAdvisor, with the figures that a test gives.

They are written by hand, not recorded. Names, types and help texts are those of
`metrics/prometheus.go` of github.com/google/cadvisor; the kubelet's cAdvisor renames the labels to
`container`, `pod` and `namespace` (`pkg/kubelet/server/server.go` of Kubernetes), a standalone one
prefixes the container runtime's with `container_label_`.
"""

PERIODS = "container_cpu_cfs_periods_total"
THROTTLED = "container_cpu_cfs_throttled_periods_total"
WAITING = "container_pressure_cpu_waiting_seconds_total"
KUBELET = ("namespace", "pod", "container")
ALONE = tuple(
    f"container_label_io_kubernetes_{each}"
    for each in ("pod_namespace", "pod_name", "container_name")
)


def cadvisor_page(
    *,
    periods: float,
    throttled: float,
    waiting: float = 0.0,
    container: tuple[str, str, str] = ("lab", "chat-server-x", "server"),
    labels: tuple[str, ...] = KUBELET,
) -> str:
    """Build the page of a node on which another container of each kind runs, too."""
    others = [
        (container[0], container[1], "istio-proxy"),
        ("prod", *container[1:]),
        (container[0], "other", "server"),
    ]
    rows = [
        (container, periods, throttled, waiting),
        *((each, 1e6, 9e5, 8e5) for each in others),
    ]
    text = []
    for name, place, counted in (
        (PERIODS, 1, "Number of elapsed enforcement period intervals."),
        (THROTTLED, 2, "Number of throttled period intervals."),
        (
            WAITING,
            3,
            "Total time duration tasks in the container have waited due to CPU congestion.",
        ),
    ):
        text += [f"# HELP {name} {counted}", f"# TYPE {name} counter"]
        for row in rows:
            held = ",".join(
                f'{label}="{value}"'
                for label, value in zip(labels, row[0], strict=True)
            )
            text.append(
                f'{name}{{id="/kubepods.slice/x",image="server",name="y",{held}}} {row[place]} 1764000000000'
            )
    return "\n".join([*text, ""])
