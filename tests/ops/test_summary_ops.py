"""Summaries and the event trace op, in graph mode, eagerly and in functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.ops import summary_ops
from tensorflow_ipu.ops.raw import gen_ipu_ops
from tensorflow_ipu.runtime import events


class _Engine:
    """An engine without events."""

    def enable_events(self, enabled: bool) -> None:
        """Does nothing."""

    def drain_events(self) -> list[Any]:
        """Has none."""
        return []


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> events.EventStore:
    store = events.EventStore(_Engine())
    store.enable(True)
    monkeypatch.setattr(events, "STORE", store)
    return store


def _record(store: events.EventStore, name: str) -> None:
    store.append(lambda: events.execute(name, 0, 0.0))


def _names(value: Any) -> list[str]:
    return [e.execute.module_name.decode() for e in events.extract_all_events(value)]


def test_the_trace_is_read_in_eager_mode(store: events.EventStore) -> None:
    _record(store, "a")
    _record(store, "b")
    trace = gen_ipu_ops.ipu_event_trace()
    assert trace.dtype == tf.string and trace.shape == [2]
    assert "CPU" in trace.device
    assert _names(trace) == ["a", "b"]
    assert gen_ipu_ops.ipu_event_trace().shape == [0]


def test_trace_in_a_function_reads_at_each_call(store: events.EventStore) -> None:
    read = tf.function(gen_ipu_ops.ipu_event_trace)
    assert read().shape == [0]
    _record(store, "a")
    assert _names(read()) == ["a"]


def test_the_trace_is_read_in_a_session(store: events.EventStore) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        with tf.device("/device:IPU:0"):
            trace = gen_ipu_ops.ipu_event_trace()
        assert trace.op.device == "/device:CPU:0"
        assert trace.shape.rank == 1
        assert session.run(trace).tolist() == []
        _record(store, "a")
        assert _names(session.run(trace)) == ["a"]


def test_zero_bytes_at_end_of_an_event_survive(store: events.EventStore) -> None:
    _record(store, "a\0")
    assert store.drain()[0].endswith(b"\0")
    _record(store, "a\0")
    assert _names(gen_ipu_ops.ipu_event_trace()) == ["a\0"]


def test_the_compile_summary_comes_after_its_ops(store: events.EventStore) -> None:
    def run() -> np.ndarray:
        _record(store, "program")
        return np.float32(1)

    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        result = tf.numpy_function(run, [], tf.float32)
        summary = summary_ops.ipu_compile_summary("compile", [[result], result.op])
        assert graph.get_collection(tf.compat.v1.GraphKeys.SUMMARIES) == [summary]
        value = session.run(summary)
    parsed = tf.compat.v1.Summary.FromString(value)
    assert len(parsed.value) == 1
    assert parsed.value[0].metadata.plugin_data.plugin_name == "ipu"
    assert parsed.value[0].metadata.display_name == "compile"
    assert _names(value) == ["program"]
    assert _names([value]) == ["program"]


def test_compile_summary_of_single_tensor_in_own_collections(
    store: events.EventStore,
) -> None:
    del store
    with tf.Graph().as_default() as graph:
        summary = summary_ops.ipu_compile_summary("s", tf.constant(1.0), collections=["mine"])
        assert graph.get_collection("mine") == [summary]
        assert graph.get_collection(tf.compat.v1.GraphKeys.SUMMARIES) == []
        assert summary.device == "/device:CPU:0"


def test_a_tensor_summary_is_tensorflows_own() -> None:
    arguments = {"summary_description": "text", "family": "f", "display_name": "shown"}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        ours = summary_ops.tensor_summary("t", tf.range(3), **arguments)
        theirs = tf.compat.v1.summary.tensor_summary("t", tf.range(3), **arguments)
        first, second = (tf.compat.v1.Summary.FromString(v) for v in session.run([ours, theirs]))
    assert first.value[0].tensor == second.value[0].tensor
    assert first.value[0].metadata == second.value[0].metadata
    assert first.value[0].tag == "f/f/t"
