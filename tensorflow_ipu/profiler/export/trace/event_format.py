"""The trace event format: names of processes and threads, and times."""

from __future__ import annotations

import math
from typing import Any

#: An event, as data for JSON.
Event = dict[str, Any]


def about(what: str, process: int, thread: int, **args: Any) -> Event:
    """Returns the metadata event of a process or thread.

    Args:
        what: type of the fact, such as `thread_name`.
        process: id of the process.
        thread: id of the thread.
        **args: the fact.
    """
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def microseconds(nanoseconds: int) -> float:
    """Returns a time in microseconds that keeps its nanoseconds if a reader truncates.

    Args:
        nanoseconds: the time.
    """
    found = nanoseconds / 1000
    return found if int(found * 1000) == nanoseconds else math.nextafter(found, math.inf)
