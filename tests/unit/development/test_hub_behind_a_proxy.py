"""The hub that only a proxy reaches: it answers what is asked of a proxy, and nothing else."""

import urllib.error
import urllib.request

import pytest
from kit.model_hub import ProxyHandler, Shelf, serving

FILE = "http://hub.example.com/org/tiny/resolve/main/config.json"


def test_a_name_that_nobody_resolves_is_answered_through_the_proxy() -> None:
    shelf = Shelf()
    shelf.put({"config.json": b"{}"})
    with serving(shelf, kind=ProxyHandler) as proxy:
        through = urllib.request.ProxyHandler({"http": proxy})
        opener = urllib.request.build_opener(through)
        with opener.open(FILE, timeout=5) as answer:
            assert answer.read() == b"{}"
        assert shelf.handed_out == {"config.json": 2}
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{proxy}/org/tiny/resolve/main/config.json")
        refused.value.close()
        assert refused.value.code == 400
        assert shelf.handed_out == {"config.json": 2}
