"""vLLM's own limits on its queue."""

import pytest
from benchrun_simulator.admission import REQUESTS, TOKENS, Admission
from benchrun_simulator.generation import ApiError


def test_without_limits_every_request_is_admitted() -> None:
    admission = Admission(max_requests=None, max_tokens=None)
    admission.check(unfinished=10**6, queued_tokens=10**9)
    assert not admission.limited


def test_requests_that_run_count_as_those_that_wait() -> None:
    admission = Admission(max_requests=3, max_tokens=None)
    admission.check(unfinished=2, queued_tokens=0)
    with pytest.raises(ApiError, match="The engine is currently busy and cannot accept new requests") as refused:
        admission.check(unfinished=3, queued_tokens=0)
    assert refused.value.status == 503
    assert b'"type":"Service Unavailable"' in refused.value.body
    assert admission.rejections == {REQUESTS: 1, TOKENS: 0}


def test_tokens_may_pass_the_limit_once() -> None:
    admission = Admission(max_requests=None, max_tokens=100)
    admission.check(unfinished=50, queued_tokens=99)
    with pytest.raises(ApiError, match="prefill token backlog limit"):
        admission.check(unfinished=50, queued_tokens=100)
    assert admission.rejections == {REQUESTS: 0, TOKENS: 1}
