"""Writes the pages of the API reference: one for each public module, below `docs/api/`."""

from __future__ import annotations

import enum
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from sphinx_ext import command_pages, guides, public_names
from sphinx_ext.docstrings import restructured
from sphinx_ext.public_names import Module
from tensorflow_ipu.configs.attributes import Option, type_text
from tensorflow_ipu.configs.ipu_config import OPTIONS, IPUConfig
from tensorflow_ipu.import_hook import tables

FOLDER = "api"

# Root of public names -> title, and what it is for.
_ROOTS = {
    tables.PUBLIC: ("ipu: TensorFlow and Keras", "`from tensorflow.python import ipu`."),
    tables.POPXL: ("popxl", "Graphs that are built op by op."),
    tables.POPXL_ADDONS: ("popxl_addons", "Modules, gradients, phases and pipelines for PopXL."),
    tables.POPART: ("popart", "ONNX models that are built, trained and run."),
    tables.POPART_CORE: ("popart_core", "The same names as `popart`, for programs that import it."),
    tables.PVA: ("pva", "Reads reports of programs."),
    tables.POPDIST: ("popdist", "What a process of a distributed program knows of the others."),
    tables.ADDONS: ("ipu_tensorflow_addons", "Keras layers and optimizers, and RNN layers."),
    tables.POPLAR: (tables.POPLAR, "Raw operations, and messages of options and events."),
}


_COMMANDS = ("pytest_plugin", "poprun")
_INTRODUCTION = """\
Every public name, from the docstrings. ``ipu`` is ``tensorflow.python.ipu``; ``tensorflow_ipu``
and, for its Keras part, ``tf.keras.ipu`` are the same modules.

"""


def write(docs: Path, only: str = "") -> None:
    """Writes the pages; those that have not changed keep their times, and others are removed.

    Args:
        docs: the folder of the pages.
        only: pattern of the names of modules, as of files; empty for all modules.
    """
    folder = docs / FOLDER
    folder.mkdir(exist_ok=True)
    pages = render(only)
    for path in folder.glob("*.rst"):
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def render(only: str = "") -> dict[str, str]:
    """Returns the text of each page by the name of its file.

    Args:
        only: as above.
    """
    modules = [m for m in public_names.modules().values() if fnmatch(m.name, only or "*")]
    inside = {root: sorted(m.name for m in modules if m.root == root) for root in _ROOTS}
    pages = {module.name: _module_page(module, inside) for module in modules}
    for root, names in inside.items():
        if names and root not in pages:
            pages[root] = f"{_head(root)}{_contents(names)}"
    pages |= {"pytest_plugin": command_pages.pytest_plugin(), "poprun": command_pages.poprun()}
    pages["index"] = _index([root for root, names in inside.items() if names])
    return {f"{name}.rst": text for name, text in pages.items()}


def _index(roots: list[str]) -> str:
    """The first page of the reference."""
    rows = "".join(
        f"   * - :doc:`{_ROOTS[root][0]} <{root}>`\n     - {restructured(_ROOTS[root][1])}\n"
        for root in roots
    )
    table = f".. list-table::\n\n{rows}\n" if rows else ""
    return f"{_heading('API reference')}{_INTRODUCTION}{table}{_contents([*roots, *_COMMANDS])}"


def _head(root: str) -> str:
    """The beginning of the page of a root that is no module itself."""
    title, text = _ROOTS[root]
    return f"{_heading(title)}{restructured(text)}\n\n"


def _contents(names: Iterable[str]) -> str:
    """Pages below another one, in the navigation and on that page."""
    lines = "".join(
        f"   {name}\n" if name in _COMMANDS or name in _ROOTS else f"   {short(name)} <{name}>\n"
        for name in names
    )
    return f".. toctree::\n   :maxdepth: 1\n\n{lines}\n"


def short(name: str) -> str:
    """Returns a public name as programs write it: `ipu.scopes` for that in TensorFlow."""
    return re.sub(rf"^{re.escape(tables.PUBLIC)}\b", "ipu", name)


def _module_page(module: Module, inside: Mapping[str, list[str]]) -> str:
    """The page of a module; the index leads to a function of the same name, if there is one."""
    above, _, last = module.name.rpartition(".")
    package = public_names.modules().get(above)
    has_namesake = package is not None and last in (*package.names, *package.elsewhere)
    no_index = "   :no-index:\n" if has_namesake else ""
    parts = [
        _heading(_ROOTS[module.name][0] if module.name in _ROOTS else short(module.name)),
        f".. py:module:: {module.name}\n{no_index}\n",
        f"{_paragraph(module.code)}\n\n",
        _also(module),
        _guides(module),
        _table(module),
        _inside(name for name in inside.get(module.name, ()) if name != module.name),
        *(_described(module, name) for name in module.names),
        *(_alias(module, name) for name in module.elsewhere),
    ]
    return "".join(parts)


def _inside(names: Iterable[str]) -> str:
    listed = list(names)
    return _contents(listed) if listed else ""


def _heading(title: str) -> str:
    return f"{title}\n{'=' * len(title)}\n\n"


def _also(module: Module) -> str:
    """The other names of a module."""
    names = ", ".join(f"``{name}``" for name in module.others)
    return f"The same module is {names}.\n\n" if names else ""


def _guides(module: Module) -> str:
    """Links to the pages that treat a module."""
    links = ", ".join(f":doc:`/{page}`" for page in guides.of(module.name))
    return f"See also: {links}.\n\n" if links else ""


def _table(module: Module) -> str:
    """The table of a module's names, with links to their descriptions."""
    rows = [(name, f"{module.name}.{name}") for name in module.names]
    rows += list(module.elsewhere.items())
    lines = [
        f"   * - :py:obj:`{name} <{target}>`\n     - {summary(module[name])}\n"
        for name, target in sorted(rows)
    ]
    head = ".. list-table::\n   :widths: 35 65\n\n"
    return head + "".join(lines) + "\n" if lines else ""


def _described(module: Module, name: str) -> str:
    """The description of one name."""
    value, full = module[name], f"{module.name}.{name}"
    if isinstance(value, type):
        return "".join(_class(value, full))
    if inspect.isroutine(value):
        return f".. autofunction:: {full}\n\n"
    text = summary(value)
    return f".. py:data:: {name}\n\n   {text}\n\n"


def _alias(module: Module, name: str) -> str:
    """The description of a second name; the first one has the whole."""
    target = module.elsewhere[name]
    kind = "class" if isinstance(module[name], type) else "function"
    return f".. py:{kind}:: {name}\n\n   The same as :py:obj:`{short(target)} <{target}>`.\n\n"


def _class(value: type, full: str) -> Iterator[str]:
    yield f".. autoclass:: {full}\n"
    members = public_names.members(value)
    if members:
        yield f"   :members: {', '.join(members)}\n   :undoc-members:\n"
    yield "\n"
    if issubclass(value, enum.Enum):
        for name, member in value.__members__.items():
            yield f"   .. py:attribute:: {name}\n      :value: {member.value!r}\n\n"
    if value is IPUConfig:
        yield from map(_option, OPTIONS.items())


def _option(item: tuple[str, Option]) -> str:
    """The description of an option of `IPUConfig`."""
    name, option = item
    notes = f"Effect here: {option.effect.value}."
    if option.deprecated_msg:
        notes += f" Deprecated: {option.deprecated_msg}"
    text = textwrap.indent(f"{restructured(option.doc)}\n\n{restructured(notes)}", " " * 6)
    kind = type_text(option.type).replace("|", "or")
    return (
        f"   .. py:attribute:: {name}\n      :type: {kind}\n"
        f"      :value: {option.default!r}\n\n{text}\n\n"
    )


def summary(value: Any) -> str:
    """Returns the first sentence of a docstring; without one, the value or its type."""
    text = _docstring(value)
    if not text:
        kind = type(value)
        is_plain = kind.__module__ in ("builtins", "types", "typing", "collections.abc")
        return f"``{short_types(value)}``" if is_plain else f"A {kind.__name__}."
    return restructured(" ".join(text.split("\n\n")[0].split()))


def short_types(value: Any) -> str:
    """Returns a number, a text or a type as it is written, without the modules of types."""
    return re.sub(r"\b(?:\w+\.)+(?=[A-Za-z_])", "", repr(value))


def _paragraph(value: Any) -> str:
    """Returns the first paragraph of a docstring."""
    return restructured(_docstring(value).split("\n\n")[0])


def _docstring(value: Any) -> str:
    """Returns the docstring of an object itself, not its type's."""
    own = value if isinstance(value, type) or inspect.isroutine(value) else None
    if own is None and not inspect.ismodule(value):
        return ""
    return inspect.getdoc(value) or ""
