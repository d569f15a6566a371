"""Finds which public name a text means: `ipu.scopes`, `IPUStrategy.run` or an internal path."""

from __future__ import annotations

import collections
import functools
import re

from sphinx_ext import public_names
from tensorflow_ipu.configs.ipu_config import OPTIONS
from tensorflow_ipu.import_hook import tables

IPU_CONFIG = f"{tables.PUBLIC}.config.IPUConfig"

# How programs begin names -> how the reference does.
_BEGINNINGS = {
    "ipu": tables.PUBLIC,
    tables.PACKAGE: tables.PUBLIC,
    "tf.keras.ipu": f"{tables.PUBLIC}.keras",
    "keras.ipu": f"{tables.PUBLIC}.keras",
    "popxl.addons": tables.POPXL_ADDONS,
    "addons": tables.POPXL_ADDONS,
    "config": IPU_CONFIG,
}
_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*")


def find(text: str, module: str = "") -> str | None:
    """Returns the full public name that a text means, where it is described.

    Args:
        text: what stands on a page, such as `ipu.scopes.ipu_shard()`.
        module: the public module that the page is about, whose names need no beginning.
    """
    name = text.removesuffix("()")
    if not _NAME.fullmatch(name):
        return None
    index = _index()
    in_module = f"{module}.{name}"
    if in_module in index and _is_telling(text):
        return index[in_module]
    for short, full in _BEGINNINGS.items():
        if f"{name}.".startswith(f"{short}.") and _whole(full + name[len(short) :]):
            return _whole(full + name[len(short) :])
    first, dot, rest = name.partition(".")
    if first in _classes():
        return index.get(_classes()[first] + dot + rest)
    return _whole(name) if dot or name in public_names.TABLES else None


def _whole(name: str) -> str | None:
    """Returns where a full name is described; it may be a member of a class by its second name."""
    index = _index()
    outer, _, last = name.rpartition(".")
    return index.get(name) or index.get(f"{index.get(outer)}.{last}")


def _is_telling(text: str) -> bool:
    """Returns whether a word looks like a name of the module rather than of an argument."""
    return bool(re.search(r"[_A-Z.]|\(\)", text))


@functools.lru_cache(maxsize=1)
def _index() -> dict[str, str]:
    """Returns where each public name is described; internal paths of things are among them."""
    index: dict[str, str] = {}
    modules = public_names.modules()
    for module in modules.values():
        for name in module.names:
            home = f"{module.name}.{name}"
            index[home] = home
            index.setdefault(_path(module[name]), home)
    for module in modules.values():
        index[module.name] = module.name
        for name in module.names:
            if isinstance(module[name], type):
                index.update(_members(module[name], f"{module.name}.{name}", index))
    for module in modules.values():
        targets = {name: f"{module.name}.{name}" for name in module.names} | module.elsewhere
        for alias in (module.name, *module.others):
            index.setdefault(alias, module.name)
            for name, home in targets.items():
                index.setdefault(f"{alias}.{name}", home)
    index.update({f"{IPU_CONFIG}.{name}": f"{IPU_CONFIG}.{name}" for name in OPTIONS})
    return index


def _path(value: object) -> str:
    """Returns the internal path of a class or a function."""
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"


def _members(value: type, home: str, index: dict[str, str]) -> dict[str, str]:
    """Returns where the attributes of a class are described: there, or at a public base."""
    found = {}
    for base in reversed(value.__mro__):
        owner = index.get(_path(base), home)
        found.update(
            {f"{home}.{name}": f"{owner}.{name}" for name in public_names.own_members(base)}
        )
    found.update({f"{home}.{name}": f"{home}.{name}" for name in public_names.members(value)})
    found.update({f"{home}.{n}": f"{home}.{n}" for n in getattr(value, "__members__", ())})
    return found


@functools.lru_cache(maxsize=1)
def _classes() -> dict[str, str]:
    """Returns the classes whose names stand for one thing and look like names: `IPUStrategy`."""
    homes: dict[str, set[str]] = collections.defaultdict(set)
    for module in public_names.modules().values():
        for name in (*module.names, *module.elsewhere):
            if isinstance(module[name], type) and len(re.findall("[A-Z]", name)) > 1:
                homes[name].add(module.elsewhere.get(name) or f"{module.name}.{name}")
    return {name: full.pop() for name, full in homes.items() if len(full) == 1}
