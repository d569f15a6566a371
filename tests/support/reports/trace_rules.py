"""The rules of the trace event format, as Perfetto reads it."""

from __future__ import annotations

import json
import math

import pytest


def nanoseconds(value: object) -> int:
    """Returns a time in whole nanoseconds, as a reader that truncates sees it."""
    assert isinstance(value, (int, float)) and math.isfinite(value) and value >= 0
    return int(value * 1000)


def check(text: str) -> None:
    """Checks the rules; `ph`, `pid`, `tid`, `ts` and `dur` are fields of the format."""
    data = json.loads(text, parse_constant=lambda constant: pytest.fail(constant))
    named: dict[str, set[object]] = {"process_name": set(), "thread_name": set()}
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    counters: dict[tuple[int, str], list[int]] = {}
    for event in data["traceEvents"]:
        assert event["ph"] in ("M", "X", "C", "i") and isinstance(event["name"], str)
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        track = event["pid"], event["tid"]
        if event["ph"] == "M":
            who = event["pid"] if event["name"] == "process_name" else track
            if event["name"] in named:
                assert who not in named[event["name"]]
                named[event["name"]].add(who)
            continue
        start = nanoseconds(event["ts"])
        if event["ph"] == "C":
            counters.setdefault((event["pid"], event["name"]), []).append(start)
            assert all(isinstance(v, (int, float)) for v in event["args"].values())
        elif event["ph"] == "X":
            assert event["name"]
            tracks.setdefault(track, []).append((start, start + nanoseconds(event["dur"])))
    assert set(tracks) <= named["thread_name"]
    assert {pid for pid, _ in tracks} | {pid for pid, _ in counters} <= named["process_name"]
    for times in counters.values():
        assert times == sorted(times)
    for slices in tracks.values():
        check_nesting(slices)


def check_nesting(slices: list[tuple[int, int]]) -> None:
    """Slices come in order of their start, and each is inside another one or after it."""
    assert [start for start, _ in slices] == sorted(start for start, _ in slices)
    inside: list[int] = []  # ends of the slices that go on
    for start, end in slices:
        while inside and inside[-1] <= start:
            inside.pop()
        assert not inside or end <= inside[-1]
        inside.append(end)
