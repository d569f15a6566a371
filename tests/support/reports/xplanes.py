"""Traces in a log directory of TensorBoard, read by TensorFlow's own converter."""

from __future__ import annotations

from pathlib import Path

from tensorflow.tsl.profiler.protobuf import trace_events_pb2

try:
    from tensorflow.python.profiler.internal import _pywrap_profiler_plugin as _converter
except ImportError:  # up to TensorFlow 2.18
    from tensorflow.python.profiler.internal import _pywrap_profiler as _converter


def trace(path: Path) -> trace_events_pb2.Trace:
    """Returns the trace that the trace viewer shows.

    Args:
        path: the file, `*.xplane.pb`.
    """
    data, found = _converter.xspace_to_tools_data([str(path)], "trace_viewer")
    assert found
    return trace_events_pb2.Trace.FromString(data)
