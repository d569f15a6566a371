"""Packages whose public modules and names are imported when first used.

Every Python interpreter of an environment with tensorflow_ipu runs this file when it starts; the
rules of `tables.py` hold here too.
"""

import sys

from tensorflow_ipu.import_hook import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def lazy_modules(public: str) -> "tuple[Callable[[str], Any], Callable[[], list[str]]]":
    """Returns `__getattr__` and `__dir__` that import public modules at first use.

    Args:
        public: public name of a package, below `tensorflow_ipu`; empty for that itself.

    Returns:
        The two functions, for the package to assign.
    """
    prefix = f"{public}." if public else ""
    package = f"{tables.PACKAGE}.{public}".rstrip(".")
    home = f"{tables.PACKAGE}.{tables.MODULES[public]}" if public else tables.PACKAGE

    def get_attribute(name: str) -> "Any":
        if prefix + name in tables.MODULES:
            import importlib

            return importlib.import_module(f"{package}.{name}")
        if prefix + name in tables.NAMES:
            import importlib

            module = importlib.import_module(f"{tables.PACKAGE}.{tables.NAMES[prefix + name]}")
            return getattr(module, name)
        raise AttributeError(missing(f"{tables.PUBLIC}.{prefix}{name}", f"{package}.{name}"))

    def names() -> "list[str]":
        everything = (*tables.MODULES, *tables.NAMES)
        below = {name[len(prefix) :] for name in everything if name.startswith(prefix)}
        own = vars(sys.modules[home])
        return sorted({*own, *(name.split(".")[0] for name in below)})

    return get_attribute, names


def missing(public: str, asked: str) -> str:
    """Returns the message of the error for a missing attribute.

    Args:
        public: its full name, as programs for the original have it.
        asked: the name that was asked for: of a module, and of an attribute.
    """
    module, _, name = asked.rpartition(".")
    bare = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):  # the import system asks for these, while it imports too
        return bare
    from tensorflow_ipu.import_hook import former_names

    return former_names.explain(public) or bare


def show_in_keras() -> None:
    """Gives the modules of Keras that are loaded the attribute `ipu`."""
    for name in tables.KERAS:
        module = sys.modules.get(name)
        if module is not None:
            module.ipu = sys.modules[tables.KERAS_IPU]  # type: ignore[attr-defined]
