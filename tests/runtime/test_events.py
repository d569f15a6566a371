"""Trace events: recording, their texts, and reading them back, against hand-made messages."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from absl import logging

from tensorflow_ipu.compiler.ir.records import ArgumentSpec, OpRecord, TensorRecord
from tensorflow_ipu.configs.ipu_config import IPUConfig
from tensorflow_ipu.configs.legacy import create_ipu_config
from tensorflow_ipu.configs.proto.trace_pb2 import IpuTraceEvent
from tensorflow_ipu.runtime import event_payloads, events, system
from tensorflow_ipu.runtime.native import EngineEvent


@dataclass
class Engine:
    """An engine whose events the test writes."""

    enabled: bool = False
    pending: list[EngineEvent] = field(default_factory=list)
    reads: int = 0

    def enable_events(self, enabled: bool) -> None:
        """Notes the state."""
        self.enabled = enabled

    def drain_events(self) -> list[EngineEvent]:
        """Hands out the events once."""
        self.reads += 1
        drained, self.pending = self.pending, []
        return drained


@dataclass
class Program:
    """A program with one input, one variable, and the ops the test gives it."""

    ops: tuple[OpRecord, ...] = ()
    id: str = "cluster_1__net.7"
    name: str = "cluster_1__net"
    arguments: tuple[ArgumentSpec, ...] = (
        ArgumentSpec("x", tf.float32, (2, 3)),
        ArgumentSpec("w", tf.float16, (3, 4), True),
    )
    results: tuple[tf.TensorSpec, ...] = (tf.TensorSpec([2, 4], tf.float32),)


def _record(name: str, op_type: str, shape: Any = (2,), **facts: Any) -> OpRecord:
    return OpRecord(
        name=name,
        type=op_type,
        function=facts.pop("function", "main"),
        depth=facts.pop("depth", 0),
        ipus=(0,),
        inputs=(),
        outputs=(TensorRecord("float32", shape),),
        bytes_in=0,
        bytes_out=0,
        flops=None,
        flops_label="",
    )


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def store(engine: Engine) -> events.EventStore:
    store = events.EventStore(engine)
    store.enable(True)
    return store


def _parsed(store: events.EventStore) -> list[IpuTraceEvent]:
    return events.extract_all_events(store.drain())


def test_nothing_is_recorded_while_off(engine: Engine) -> None:
    store = events.EventStore(engine)

    def never() -> IpuTraceEvent:
        raise AssertionError("events are off")

    store.append(never)
    with events.compiling("cluster", 0, store=store) as finished:
        finished(Program())
    store.enable(False)
    assert store.drain() == []
    assert engine.reads == 0


class Noting:
    """An observer that records its calls."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def compiled(self, name: str, ordinal: int, began: float, ended: float) -> None:
        assert began <= ended
        self.told.append(("compiled", name, str(ordinal)))

    def happened(self, event: EngineEvent, name: str) -> None:
        self.told.append((IpuTraceEvent.Type.Name(event.type), name))


@pytest.mark.parametrize("enabled", [False, True])
def test_observers_are_told_and_readers_lose_nothing(engine: Engine, enabled: bool) -> None:
    store, noting, program = events.EventStore(engine), Noting(), Program()
    store.enable(enabled)
    store.observe(noting)
    assert engine.enabled and store.observed
    with events.compiling(program.name, 3, store=store) as finished:
        finished(program)
    engine.pending = [EngineEvent(IpuTraceEvent.EXECUTE, 3, 1e10, False, program.id)]
    store.collect()
    engine.pending = [EngineEvent(IpuTraceEvent.EXECUTE, 3, 1e10 + 1, False, "other.3")]
    store.forget(noting)
    assert noting.told == [
        ("compiled", program.name, "3"),
        ("EXECUTE", program.name),
        ("EXECUTE", "other"),
    ]
    assert engine.enabled == enabled and not store.observed
    assert [event.type for event in _parsed(store)] == ([0, 1, 5, 5] if enabled else [])
    store.forget(noting)  # once is enough


def test_a_new_configuration_leaves_observers_what_they_have(engine: Engine) -> None:
    store, noting = events.EventStore(engine), Noting()
    store.observe(noting)
    engine.pending = [EngineEvent(IpuTraceEvent.LOAD_ENGINE, 0, 1.0, False, "a.1")]
    store.enable(False)
    assert engine.enabled and noting.told == [("LOAD_ENGINE", "a")]
    assert store.drain() == []


def test_reading_empties_the_store(store: events.EventStore) -> None:
    store.append(lambda: events.execute("a", 1, 2.0))
    assert len(store.drain()) == 1
    assert store.drain() == []


def test_compiler_and_engine_events_are_in_order(store: events.EventStore, engine: Engine) -> None:
    program = Program()
    with events.compiling(program.name, 3, store=store) as finished:
        finished(program)
    begin, end = (IpuTraceEvent.FromString(text) for text in store.drain())
    with events.compiling(program.name, 3, store=store) as finished:
        finished(program)
    later = end.timestamp + 1000
    engine.pending = [
        EngineEvent(IpuTraceEvent.LOAD_ENGINE, 3, later, False, program.id),
        EngineEvent(IpuTraceEvent.HOST_TO_DEVICE_TRANSFER, 3, later + 1, True, program.id),
        EngineEvent(IpuTraceEvent.HOST_TO_DEVICE_TRANSFER, 3, later + 2, False, program.id),
        EngineEvent(IpuTraceEvent.EXECUTE, 3, later + 3, False, program.id),
        EngineEvent(IpuTraceEvent.DEVICE_TO_HOST_TRANSFER, 3, later + 4, False, program.id),
        EngineEvent(IpuTraceEvent.DEVICE_TO_HOST_TRANSFER, 3, later + 5, True, program.id),
    ]
    read = _parsed(store)
    assert [event.type for event in read] == [0, 1, 4, 2, 2, 5, 3, 3]
    assert {event.ordinal for event in read} == {3}
    assert [event.timestamp for event in read] == sorted(event.timestamp for event in read)
    names = {
        read[0].compile_begin.module_name,
        read[1].compile_end.module_name,
        read[2].load_engine.module_name,
        read[5].execute.module_name,
    }
    assert names == {b"cluster_1__net"}
    assert begin.timestamp <= end.timestamp and end.compile_end.duration >= 0

    def transfer(event: IpuTraceEvent) -> list[tuple[str, int, int]]:
        data = json.loads(event.data_transfer.data_transfer)
        assert data["total_size"] == sum(t["size"] for t in data["tensors"])
        return [(t["name"], t["parameter_index"], t["size"]) for t in data["tensors"]]

    assert transfer(read[3]) == [("x", 0, 24), ("w", 1, 24)]
    assert transfer(read[4]) == [("x", 0, 24)]
    assert transfer(read[6]) == [("output_0", 0, 32)]
    assert transfer(read[7]) == [("w", 1, 24)]


def test_a_failed_compilation_only_begins(store: events.EventStore) -> None:
    with pytest.raises(ValueError, match="broken"), events.compiling("c", 0, store=store):
        raise ValueError("broken")
    assert [event.type for event in _parsed(store)] == [IpuTraceEvent.COMPILE_BEGIN]


def test_a_program_of_the_host_has_no_events(store: events.EventStore) -> None:
    with events.compiling("cluster", 0, on_device=False, store=store) as finished:
        finished(Program())
    assert store.drain() == []


def test_change_of_configuration_keeps_events_and_forgets_programs(
    store: events.EventStore, engine: Engine
) -> None:
    program = Program(name="named")
    store.remember(program)
    engine.pending = [EngineEvent(IpuTraceEvent.EXECUTE, 0, 1.0, False, program.id)]
    store.enable(True)
    engine.pending = [EngineEvent(IpuTraceEvent.EXECUTE, 0, 2.0, False, program.id)]
    store.enable(False)
    assert not engine.enabled
    read = _parsed(store)
    assert [event.execute.module_name for event in read] == [b"named", b"cluster_1__net"]


def test_payloads_are_made_when_they_are_read(store: events.EventStore) -> None:
    class Lazy(Program):
        """A program that says when its ops are listed."""

        listed = 0

        @property
        def ops(self) -> tuple[OpRecord, ...]:
            """Counts the listings."""
            type(self).listed += 1
            return ()

        @ops.setter
        def ops(self, value: Any) -> None:
            """For the dataclass."""

    with events.compiling("cluster", 0, store=store) as finished:
        finished(Lazy())
    assert Lazy.listed == 0
    store.drain()
    assert Lazy.listed == 2


def test_the_tensor_map_event_lists_tensors_by_tile() -> None:
    program = Program(
        ops=(
            _record("a", "Const", (2, 3)),
            _record("b", "Reshape", (6,), function="body", depth=1),
            _record("c", "Exp", None),
        )
    )
    assert json.loads(event_payloads.tensor_map(program)) == {
        "mappings": {
            "main": [
                ["a", 0, [2, 3], "float", True, False, 6, []],
                ["c", 0, [], "float", False, False, 0, []],
            ],
            "body": [["b", 0, [6], "float", False, True, 6, []]],
        }
    }


def test_the_instruction_info_event_lists_work_by_op() -> None:
    program = Program(
        ops=(
            _record("dense/MatMul", "MatMul", (2, 4)),
            _record("gradients/MatMul", "MatMul", (2, 3)),
            _record("gradient_tape/MatMul_1", "MatMul", (3, 4)),
            _record("gradients/filter", "Conv2DBackpropFilter", (9,), function="body", depth=1),
            _record("upsample", "Conv2DBackpropInput"),
            _record("relu", "Relu"),
            _record("update", "ResourceApplyGradientDescent"),
        )
    )
    assert json.loads(event_payloads.instruction_info(program)) == {
        "ml_types": {
            "dense/MatMul": 1,
            "gradients/MatMul": 2,
            "gradient_tape/MatMul_1": 3,
            "body/gradients/filter": 3,
            "upsample": 1,
            "relu": 0,
            "update": 3,
        }
    }


def _hand_made() -> list[bytes]:
    """One event of each type, built without the package's own builders."""
    messages = [IpuTraceEvent(timestamp=float(t), ordinal=0, type=t) for t in range(6)]
    messages[0].compile_begin.module_name = b"m"
    messages[1].compile_end.module_name = b"m"
    messages[1].compile_end.duration = 42
    messages[2].data_transfer.data_transfer = b"{in}"
    messages[3].data_transfer.data_transfer = b"{out}"
    messages[4].load_engine.module_name = b"m"
    messages[5].execute.module_name = b"m"
    return [message.SerializeToString() for message in messages]


def test_events_are_shown_as_text() -> None:
    text = events.extract_all_strings_from_event_trace(_hand_made())
    blocks = text.split("-" * 70 + "\n")[1:]
    head = r"=> @ \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}: "
    for block, expected in zip(
        blocks,
        [
            "Compile begin: m",
            "Compile end: m\nDuration: 42",
            "Host->Device {in}",
            "Device->Host {out}",
            "Load engine: m",
            "Execute: m",
        ],
    ):
        assert re.fullmatch(head + re.escape(expected) + "\n", block)
    assert len(blocks) == 6


@pytest.mark.parametrize(
    "wrap",
    [
        lambda raw: raw,
        lambda raw: np.array(raw, dtype=object),
        lambda raw: [np.array(raw[:2], dtype=object), raw[2:]],
        tf.constant,
        lambda raw: tf.compat.v1.Summary(
            value=[tf.compat.v1.Summary.Value(tag="t", tensor=tf.make_tensor_proto(raw))]
        ).SerializeToString(),
    ],
)
def test_events_in_all_forms_they_come_in(wrap: Any) -> None:
    wrapped = wrap(_hand_made())
    assert events.extract_all_types_from_event_trace(wrapped) == list(range(6))
    assert events.extract_all_events(wrapped)[1].compile_end.duration == 42


def test_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="evaluate the tensor"):
        events.extract_all_events(3)


@pytest.mark.parametrize(
    "extract",
    [
        events.extract_compile_reports,
        events.extract_execute_reports,
        events.extract_poplar_serialized_graphs,
    ],
)
def test_reports_are_not_in_events(extract: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    monkeypatch.setattr(logging, "warning", lambda text, *args: logged.append(text % args))
    assert extract(_hand_made()) == []
    assert extract.__name__ in logged[0] and "deprecated" in logged[0]


@pytest.mark.parametrize(
    "options, expected",
    [({}, False), ({"enable_ipu_events": True}, True), ({"profiling": True}, True)],
)
def test_the_configuration_turns_events_on(
    options: dict[str, bool], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine()
    monkeypatch.setattr(events, "STORE", events.EventStore(engine))
    try:
        system.configure_ipu_system(create_ipu_config(**options))
        events.configure(system.current())
        assert events.STORE.enabled is engine.enabled is expected
        system.configure_ipu_system(IPUConfig())
        events.configure(system.current())
        assert not events.STORE.enabled and not engine.enabled
    finally:
        system.reset_ipu_configuration()
