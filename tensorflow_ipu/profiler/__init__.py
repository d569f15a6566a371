"""Reports of programs, made from Executables and trace events: the module `ipu.profiler`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorflow_ipu.compiler.cache import executables
    from tensorflow_ipu.profiler.keras_callback import Callback
    from tensorflow_ipu.profiler.report import Report
    from tensorflow_ipu.profiler.session import profile, report_of, reports, summary

__all__ = ["Callback", "Report", "executables", "profile", "report_of", "reports", "summary"]

# Modules are imported when their names are asked for: saved reports are read without TensorFlow,
# and Keras is for the callback only.
_MODULES = {
    "Callback": "profiler.keras_callback",
    "Report": "profiler.report",
    "executables": "compiler.cache",
    "profile": "profiler.session",
    "report_of": "profiler.session",
    "reports": "profiler.session",
    "summary": "profiler.session",
}


def __getattr__(name: str) -> Any:
    """Imports a public name."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tensorflow_ipu.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Returns the public names and the module's other names."""
    return sorted({*globals(), *__all__})
