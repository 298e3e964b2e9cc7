# Generated from the rules in operator/benchrun/api by: python -m dev.generate
"""Every rule of the spec, and every message with figures, as a function of `self`.

By the checksum of its CEL.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any


# fmt: off
def _run_requests(it: Any) -> Any:
    return (sum([float(w.requests) * _all_stages(w.load, it.repeats) if w.requests is not None
        else float(w.duration_seconds if w.duration_seconds is not None else 0) *
        (sum(_each_rate(w.load.request_rates)) * float(it.repeats) if w.load.request_rates is not
        None else _highest(w.load.search) * _all_stages(w.load, it.repeats)) for w in
        it.workloads]))
def _runs(it: Any) -> Any:
    return (_variants(it.matrix) * it.replications)
def _load_point_requests(it: Any) -> Any:
    return (max([*[(float(w.requests) if w.requests is not None else float(w.duration_seconds if
        w.duration_seconds is not None else 0) * (max([*_each_rate(w.load.request_rates), 0.0]) if
        w.load.request_rates is not None else _highest(w.load.search))) *
        float(w.load.search.max_repeats if w.load.search is not None else it.repeats) for w in
        it.workloads], 0.0]))
def _variants(it: Any) -> Any:
    return (len(it.variants) if it.variants is not None else (len(it.zip[0].values) if len(it.zip)
        > 0 else 0) if it.zip is not None else _grid(it.grid) if it.grid is not None else 0)
def _all_stages(it: Any, of: Any) -> Any:
    return (float(it.search.max_probes + 3 * it.search.max_repeats if it.search is not None else
        _points(it) * of))
def _load_points(it: Any) -> Any:
    return (sum([_points(w.load) for w in it]))
def _points(it: Any) -> Any:
    return (len(it.request_rates) if it.request_rates is not None else len(it.concurrencies) if
        it.concurrencies is not None else it.search.max_probes + 3 if it.search is not None else
        len(it.trace_speeds) if it.trace_speeds is not None else len(it.batch_sizes) if
        it.batch_sizes is not None else 0)
def _grid(it: Any) -> Any:
    return ((len(it[0].values) if len(it) > 0 else 1) * (len(it[1].values) if len(it) > 1 else 1)
        * (len(it[2].values) if len(it) > 2 else 1) * (len(it[3].values) if len(it) > 3 else 1) *
        (len(it[4].values) if len(it) > 4 else 1))
def _place(it: Any, of: Any) -> Any:
    return ([it.name + '=' + v.name in of.split(',') for v in it.values].index(True) if True in
        [it.name + '=' + v.name in of.split(',') for v in it.values] else -1)
def _loads(it: Any) -> Any:
    return (5 - [it.request_rates, it.concurrencies, it.search, it.trace_speeds,
        it.batch_sizes].count(None))
def _each_rate(it: Any) -> Any:
    return ([float(r) if _number(r) and r != 'inf' else 0.0 for r in it])
def _highest(it: Any) -> Any:
    return (float(it.to) if it is not None and _number(it.to) else 0.0)
def _number(it: Any) -> Any:
    return (re.search('^(inf|[0-9]+([.][0-9]+)?)$', it))
RULE_FUNCTIONS: Mapping[int, Callable[[Any], Any]] = {
    0x21765739: lambda self: 3 - [self.server, self.endpoint, self.offline].count(None) == 1,
    0x39a0fcb5: lambda self: _load_points(self.workloads) <= 64,
    0x0d1c98c8: lambda self:
        f'workloads have {_load_points(self.workloads)} load points in all; the limit is 64',
    0x900a23ab: lambda self: _load_points(self.workloads) * self.repeats <= 256,
    0x44e07465: lambda self:
        f'{_load_points(self.workloads)} load points x {self.repeats} repeats = {_load_points(self.workloads) * self.repeats} stages; the limit is 256',
    0x35ecc428: lambda self: not any(w.load.search is not None for w in self.workloads) or
        sum([w.load.search.max_probes + 3 * w.load.search.max_repeats if w.load.search is not None
        else _points(w.load) for w in self.workloads]) <= 256,
    0x068b3d8e: lambda self: _load_point_requests(self) <= 200000.0,
    0xf7b3ec41: lambda self:
        f'a load point takes up to {int(_load_point_requests(self))} requests (requests x repeats); the limit is 200000',
    0x0bb880e3: lambda self: _run_requests(self) <= 1000000.0,
    0xa18e2157: lambda self:
        f'the run takes up to {int(_run_requests(self))} requests in all (stages x requests); the limit is 1000000',
    0x8c45f802: lambda self: not any(w.load.search is not None for w in self.workloads) or
        (self.objectives is not None and len(self.objectives) > 0),
    0xef440ff6: lambda self: not any(w.load.search is not None for w in self.workloads) or
        self.repeats == 1,
    0x4dc5f87f: lambda self: all(w.load.search is None or (self.objectives is None or all(o.metric
        == 'ITL' or not _number(o.percentile) or (float(w.requests) if w.requests is not None else
        float(w.duration_seconds) * float(w.load.search.from_) if w.duration_seconds is not None
        and _number(w.load.search.from_) else 0.0) * (100.0 - float(o.percentile)) >= (369.0 if
        w.load.search.max_repeats > 1 else 479.0) for o in self.objectives)) for w in
        self.workloads),
    0xb71efc6c: lambda self: all(w.dataset.mix is None or all(any(o.name == p.workload and
        o.dataset.mix is None and (o.dataset.timed_trace is None) for o in self.workloads) for p
        in w.dataset.mix) for w in self.workloads),
    0x58835af9: lambda self: all(_loads(w.load) > 0 or w.requests is not None or
        w.duration_seconds is not None or any(m.dataset.mix is not None and any(p.workload ==
        w.name for p in m.dataset.mix) for m in self.workloads) for w in self.workloads),
    0xb71964f1: lambda self: self.client.parallelism == 'Auto' or self.client.parallelism == 1 or
        all(w.load.search is None for w in self.workloads),
    0xcea10574: lambda self: self.client.parallelism == 'Auto' or self.client.parallelism == 1 or
        self.offline is None,
    0xb9bbb267: lambda self: self.measurement.profile is None or ((self.server.disaggregated is
        None if self.server is not None else self.offline is None and
        self.measurement.profile.claim_name is None) and all(w.load.search is None for w in
        self.workloads)),
    0xa7436e7b: lambda self: self.offline is not None or all(w.load.batch_sizes is None for w in
        self.workloads),
    0x8b06c0ca: lambda self: self.offline is None or all(w.load.batch_sizes is not None or
        (w.load.request_rates is not None and all(r == 'inf' for r in w.load.request_rates) and
        (w.load.max_concurrency is None) and (w.load.burstiness is None)) for w in
        self.workloads),
    0x2c0cf39b: lambda self: self.measurement.cache_policy != 'Isolate' or all((w.dataset.random
        is None or w.dataset.random.seed is None) and (w.dataset.share_gpt is None or
        w.dataset.share_gpt.seed is None) and (w.dataset.texts is None or w.dataset.texts.order is
        None or w.dataset.texts.order != 'File') for w in self.workloads),
    0x47c60b7a: lambda self: all(w.load.search is None or (self.measurement.cache_policy !=
        'Share' and (w.dataset.random is None or w.dataset.random.seed is None) and
        (w.dataset.share_gpt is None or w.dataset.share_gpt.seed is None) and (w.dataset.texts is
        None or w.dataset.texts.order is None or w.dataset.texts.order != 'File')) for w in
        self.workloads),
    0x37af77fb: lambda self: self.offline is None or all(not w.test_request for w in
        self.workloads),
    0x24c4b3fa: lambda self: self.measurement.cache_policy != 'Reset' or self.offline is None,
    0x0206ea9a: lambda self: self.measurement.cache_policy != 'Reset' or self.endpoint is None or
        self.endpoint.allow_cache_reset,
    0x027e9791: lambda self: self.endpoint is None or self.cost is None or self.cost.per_gpu_hour
        is None,
    0xf68bf485: lambda self: self.measurement.cache_policy != 'Reset' or self.server is None or
        self.server.engine != 'VLLM' or (self.server.env is None) or all(v.name !=
        'VLLM_SERVER_DEV_MODE' or (v.value is not None and v.value == '1') for v in
        self.server.env),
    0x3105e52c: lambda self: self.measurement.profile is None or (self.server.engine if
        self.server is not None else self.endpoint.engine if self.endpoint is not None else
        self.offline.engine) in ['VLLM'],
    0x88331c14: lambda self: self.revision is None or self.source.hub is not None,
    0x3c348e03: lambda self: 4 - [self.hub, self.pvc, self.image_volume, self.path].count(None) ==
        1,
    0x2cf3b327: lambda self: (self.inline is not None) != (self.config_map is not None),
    0x70bc9446: lambda self: self.disaggregated is None or (self.replicas == 1 and (self.resources
        is None or ((self.resources.limits is None or len(self.resources.limits) == 0) and
        (self.resources.requests is None or len(self.resources.requests) == 0)))),
    0xdc470507: lambda self: self.disaggregated is None or self.nodes_per_replica == 1,
    0x565bb68c: lambda self: self.engine in ['VLLM'] or self.disaggregated is None,
    0xf60f5c58: lambda self: self.engine in ['VLLM'] or self.nodes_per_replica == 1,
    0x6bcc30de: lambda self: (self.value is not None) != (self.value_from is not None),
    0xed281088: lambda self: all(source in ['secretKeyRef', 'configMapKeyRef', 'fieldRef',
        'resourceFieldRef'] for source in self),
    0x1960f8e0: lambda self: (self.service_ref is not None) != (self.url is not None),
    0xf6b58fd9: lambda self: _loads(self.load) == 0 or (self.requests is not None) !=
        (self.duration_seconds is not None),
    0x14bc5215: lambda self: _loads(self.load) > 0 or (self.requests is None and
        self.duration_seconds is None),
    0x4c23935f: lambda self: self.load.trace_speeds is None or self.dataset.timed_trace is not
        None,
    0xd31b66c1: lambda self: self.duration_seconds is None or (self.load.request_rates is not None
        and all(r != 'inf' for r in self.load.request_rates)) or (self.load.search is not None and
        self.load.search.axis == 'RequestRate'),
    0xb358c209: lambda self: self.duration_seconds is None or self.load.request_rates is None or
        all(r == 'inf' or float(r) * float(self.duration_seconds) <= 50000.0 for r in
        self.load.request_rates),
    0x526cd4dd: lambda self: self.duration_seconds is None or self.load.search is None or (not
        _number(self.load.search.to)) or (float(self.load.search.to) *
        float(self.duration_seconds) <= 50000.0),
    0x4c1123ec: lambda self: self.sampling is None or self.sampling.stop is None or (not
        self.ignore_eos),
    0x2796acf7: lambda self: not self.test_request or self.load.search is None,
    0xd0152e8a: lambda self: 9 - [self.random, self.prefix_repetition, self.agent, self.share_gpt,
        self.custom, self.texts, self.hugging_face, self.timed_trace, self.mix].count(None) == 1,
    0x27aea398: lambda self: not (self.input_tokens is not None and self.input_lengths is not
        None) and (not (self.output_tokens is not None and self.output_lengths is not None)),
    0x597b675e: lambda self: self.input_lengths is None or (self.input_lengths.min <=
        self.input_lengths.mean and self.input_lengths.mean <= self.input_lengths.max),
    0x245877e2: lambda self: self.output_lengths is None or (self.output_lengths.min <=
        self.output_lengths.mean and self.output_lengths.mean <= self.output_lengths.max),
    0xdf3a4fda: lambda self: self.input_lengths is None and self.output_lengths is None if
        self.generator == 'VLLM' else self.seed is None,
    0x052cd59a: lambda self: self.generator == 'VLLM' or self.version is None,
    0x4f94a7eb: lambda self: self.range_ratio is None or (self.version is not None and
        self.version == '0.9'),
    0x943bffd5: lambda self: (self.static_prefix is not None) != (self.dynamic_prefix is not
        None),
    0xe66d8549: lambda self: self.output_tokens is None or self.input_output_ratio is None,
    0x82d81b5b: lambda self: 5 - [self.config_map, self.pvc, self.url, self.s3,
        self.path].count(None) == 1,
    0x58469056: lambda self: self.output_tokens_per_text * self.texts_per_prompt <= 1000000,
    0x7d97c4e5: lambda self: _loads(self) <= 1,
    0x18a88dee: lambda self: self.max_concurrency is None or self.request_rates is not None,
    0x3fa066a6: lambda self: self.burstiness is None or self.request_rates is not None,
    0xcf8a3520: lambda self: self.start is None or self.concurrencies is not None or (self.search
        is not None and self.search.axis == 'Concurrency') or (self.request_rates is not None and
        self.max_concurrency is not None and all(r == 'inf' for r in self.request_rates)),
    0xba2cbec1: lambda self: self.think_seconds is None or self.concurrencies is not None or
        (self.search is not None and self.search.axis == 'Concurrency') or (self.request_rates is
        not None and self.max_concurrency is not None and all(r == 'inf' for r in
        self.request_rates)),
    0x78472206: lambda self: all(not _number(a) or len([b for b in self if _number(b) and float(a)
        == float(b)]) == 1 for a in self),
    0xd57a2ce7: lambda self: not _number(self) or float(self) > 0.0,
    0x1fd2fed8: lambda self: not _number(self) or float(self) <= 3600.0,
    0xc8fcd25d: lambda self: self.axis != 'Concurrency' or (re.search('^[0-9]+$', self.from_) and
        re.search('^[0-9]+$', self.to)),
    0x3b2ced31: lambda self: self.axis != 'Concurrency' or not _number(self.to) or float(self.to)
        <= 100000.0,
    0xce92eb5f: lambda self: not (_number(self.from_) and _number(self.to)) or float(self.from_) <
        float(self.to),
    0x73be9877: lambda self: not _number(self) or (float(self) >= 1.0 and float(self) <= 100.0),
    0x63bfce98: lambda self: not (self.top_p is not None or self.top_k is not None or self.min_p
        is not None) or re.search('[1-9]', self.temperature),
    0xb385d345: lambda self: (self.auto is not None) != (self.none is not None),
    0x76f2c8c5: lambda self: not _number(self) or float(self) <= 100.0,
    0xeb2fc1d5: lambda self: 3 - [self.per_gpu_hour, self.per_hour,
        self.per_million_tokens].count(None) == 1,
    0xd99b25af: lambda self: self.template.server is not None or self.template.offline is not
        None,
    0x83bc53dd: lambda self: not self.template.suspend,
    0xa417aacb: lambda self: not self.template.cancel,
    0x7effd9cd: lambda self: self.template.ttl_seconds_after_finished is None,
    0x4e8e8769: lambda self: _variants(self.matrix) > 32 or _runs(self) <= 128,
    0x9f10734b: lambda self:
        f'{_variants(self.matrix)} variants x {self.replications} replications = {_runs(self)} runs; the limit is 128',
    0x01b0e5d1: lambda self: self.baseline is None or (any(v.name == self.baseline for v in
        self.matrix.variants) if self.matrix.variants is not None else
        len(self.baseline.split(',')) == len(self.matrix.zip) and all(_place(a, self.baseline) >=
        0 and _place(a, self.baseline) == ([self.matrix.zip[0].name + '=' + v.name in
        self.baseline.split(',') for v in self.matrix.zip[0].values].index(True) if True in
        [self.matrix.zip[0].name + '=' + v.name in self.baseline.split(',') for v in
        self.matrix.zip[0].values] else -1) for a in self.matrix.zip) if self.matrix.zip is not
        None else self.matrix.grid is not None and len(self.baseline.split(',')) ==
        len(self.matrix.grid) and all(any(a.name + '=' + v.name in self.baseline.split(',') for v
        in a.values) for a in self.matrix.grid)),
    0x8a63d157: lambda self: f'no variant of the matrix is called {self.baseline}',
    0x56c782b9: lambda self: 3 - [self.grid, self.zip, self.variants].count(None) == 1,
    0x4af5aa49: lambda self: self.zip is None or all(len(a.values) == len(self.zip[0].values) for
        a in self.zip),
    0x1ae04ca7: lambda self: self.grid is None or _grid(self.grid) <= 32,
    0xab0b1433: lambda self: f'the grid has {_grid(self.grid)} variants; the limit is 32',
}
