"""Table of the names that Python dropped between 3.6 and 3.11."""

from __future__ import annotations

from tensorflow_ipu.compat.rows import Keyword, Method, Name

_OURS = "tensorflow_ipu.compat.replacements.python"

_ABCS = """Awaitable Coroutine AsyncIterable AsyncIterator AsyncGenerator Hashable Iterable Iterator
    Generator Reversible Sized Container Callable Collection Set MutableSet Mapping MutableMapping
    MappingView KeysView ItemsView ValuesView Sequence MutableSequence ByteString""".split()

NAMES = (
    *(
        Name(f"collections.{name}", f"collections.abc.{name}", "not in collections since 3.10")
        for name in _ABCS
    ),
    Name("inspect.getargspec", f"{_OURS}.getargspec", "not in Python since 3.11"),
    Name("asyncio.coroutine", f"{_OURS}.coroutine", "not in Python since 3.11"),
    Name("time.clock", "time.perf_counter", "not in Python since 3.8"),
    Name("fractions.gcd", "math.gcd", "not in Python since 3.9"),
    Name("base64.encodestring", "base64.encodebytes", "not in Python since 3.9"),
    Name("base64.decodestring", "base64.decodebytes", "not in Python since 3.9"),
)

KEYWORDS = (
    *(
        Keyword(f"json.{name}", "encoding", "without effect, and not taken since Python 3.9")
        for name in ("load", "loads")
    ),
    *(
        Keyword(f"asyncio.{name}", "loop", "not taken since Python 3.10")
        for name in ("gather", "shield", "sleep", "wait", "wait_for")
    ),
)

METHODS = (
    Method(
        "threading.Thread",
        "isAlive",
        "threading.Thread.is_alive",
        "another name since Python 3.9",
    ),
)
