"""Writes the type stubs that editors and type checkers need: `python stubs/make_stubs.py`.

Most public modules exist under names that no file stands for (`tensorflow.python.ipu.config`), and
options are attributes that no class names. So this writes, into `stubs/packages/`:

* `tensorflow-stubs`, `ipu_tensorflow_addons-stubs`, `popdist-stubs`, `popxl-stubs`,
  `popxl_addons-stubs`, `popart-stubs`, `popart_core-stubs`, `pva-stubs` and `tensorflow_ipu-stubs`:
  for each module of `tensorflow_ipu/import_hook/tables.py` a file that leads to the module which
  has the code, and for each package one that names its contents.
* `tensorflow_ipu-stubs/configs/ipu_config.pyi`: each option of `IPUConfig`, with its type and
  docstring.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import shutil
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensorflow_ipu.configs import ipu_config
from tensorflow_ipu.configs.attributes import Category, Group, Option
from tensorflow_ipu.import_hook import tables

FOLDER = Path(__file__).with_name("packages")

_MADE = "# Made by stubs/make_stubs.py."
_WIDTH = 96
# Of a package that has more than we know: of TensorFlow, that is most.
_UNKNOWN = f"{_MADE}\n\nfrom typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n"

_DOT = re.compile(r"\.")

# Packages that import their modules when these are first used.
_LAZY = ("", "data", "data.ops", "distributed", "horovod", "keras", "ops", "optimizers")

Files = dict[str, str]


def make() -> Files:
    """Returns the text of each file by its path below `stubs/packages/`."""
    own = {name: target for name, target in tables.MODULES.items() if name != target}
    below_plugin = {f"poplar.{name}": target for name, target in tables.POPLAR_MODULES.items()}
    files = {
        # Partial (PEP 561): the rest is in the package itself.
        "tensorflow_ipu-stubs/py.typed": "partial\n",
        "tensorflow_ipu-stubs/configs/__init__.pyi": _text([]),
        "tensorflow_ipu-stubs/configs/ipu_config.pyi": _options_module(),
        **_modules("tensorflow_ipu-stubs", tables.PACKAGE, {**own, **dict.fromkeys(_LAZY, "")}),
        "tensorflow-stubs/python/__init__.pyi": _UNKNOWN,
        **_modules("tensorflow-stubs/python/ipu", tables.PUBLIC, {**tables.MODULES, "": ""}),
        "tensorflow-stubs/compiler/__init__.pyi": _UNKNOWN,
        **_modules("tensorflow-stubs/compiler/plugin", tables.PLUGIN, below_plugin),
        **_modules(f"{tables.ADDONS}-stubs", tables.ADDONS, tables.ADDONS_MODULES),
        **_modules(f"{tables.POPDIST}-stubs", tables.POPDIST, tables.POPDIST_MODULES),
        **_modules(f"{tables.POPXL}-stubs", tables.POPXL, tables.POPXL_MODULES),
        **_modules(
            f"{tables.POPXL_ADDONS}-stubs", tables.POPXL_ADDONS, tables.POPXL_ADDONS_MODULES
        ),
        **_modules(f"{tables.POPART}-stubs", tables.POPART, tables.POPART_MODULES),
        **_modules(f"{tables.POPART_CORE}-stubs", tables.POPART_CORE, tables.POPART_CORE_MODULES),
        **_modules(f"{tables.PVA}-stubs", tables.PVA, tables.PVA_MODULES),
    }
    return dict(sorted(files.items()))


def write(folder: Path = FOLDER) -> None:
    """Writes all files.

    Args:
        folder: where to; what is there is removed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for name, text in make().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _modules(folder: str, root: str, table: Mapping[str, str]) -> Files:
    """Returns the files of the modules of a table, and of the packages that they are in.

    Args:
        folder: of `root`.
        root: package that all names of the table are below.
        table: module of `tensorflow_ipu` that has the code, by name.
    """
    files = {}
    packages = {"", *(name[: match.start()] for name in table for match in _DOT.finditer(name))}
    for name in sorted(packages | set(table)):
        path = "/".join([folder, *name.split(".")] if name else [folder])
        public = f"{root}.{name}" if name else root
        everything = [f"from {tables.PACKAGE}.{table[name]} import *"] if table.get(name) else []
        if name in table and name in _LAZY and root in (tables.PACKAGE, tables.PUBLIC):
            files[f"{path}/__init__.pyi"] = _lazy_package(name, public)
        elif name in packages:
            prefix = f"{name}." if name else ""
            inside = {n[len(prefix) :].split(".")[0] for n in table if n.startswith(prefix)} - {""}
            lines = [
                f"from {public} import {child} as {child}"
                for child in sorted(inside)
                if not _has_function(table.get(name), child)
            ]
            files[f"{path}/__init__.pyi"] = _text([*everything, *lines])
        else:
            files[f"{path}.pyi"] = _text(everything)
    return files


def _has_function(module: str | None, name: str) -> bool:
    """Returns whether a package has a function with the name of one of its modules.

    Args:
        module: the package below `tensorflow_ipu`; None or empty if there is no code in it.
        name: the name.
    """
    if not module:
        return False
    package = importlib.import_module(f"{tables.PACKAGE}.{module}")
    return inspect.isfunction(getattr(package, name, None))


def _text(lines: list[str]) -> str:
    return "\n".join([_MADE, "", *lines, ""] if lines else [_MADE, ""])


def _lazy_package(name: str, public: str) -> str:
    """Returns the file of a package that imports its modules, and some classes, when used.

    Args:
        name: of the package below `tensorflow_ipu`; empty for that itself.
        public: the name that it is to have.
    """
    package = importlib.import_module(f"{tables.PACKAGE}.{name}" if name else tables.PACKAGE)
    lines = [] if name else ["__version__: str"]
    for attribute in sorted(n for n in dir(package) if not n.startswith("_")):
        value = getattr(package, attribute)
        if isinstance(value, types.ModuleType):
            if f"{name}.{attribute}".lstrip(".") in tables.MODULES:
                lines.append(f"from {public} import {attribute} as {attribute}")
        elif getattr(value, "__module__", "").startswith(f"{tables.PACKAGE}."):
            lines.append(f"from {value.__module__} import {attribute} as {attribute}")
    return _text(lines)


def _options_module() -> str:
    """The module of `IPUConfig`: a class for each category, with its options as attributes."""
    classes = [*_category_classes(ipu_config.TREE, ""), "", *_config_class()]
    body = "\n".join([*_base_class(), *classes])
    return "\n".join(
        [
            _MADE,
            "",
            "from collections.abc import Iterator, Mapping",
            "from typing import Any",
            "",
            "from tensorflow_ipu.configs.attributes import AttributeMetadata",
            "from tensorflow_ipu.configs.attributes import Group, Option",
            *(f"from tensorflow_ipu.configs.enums import {name}" for name in _enums()),
            "",
            "IntOrInts = int | list[int] | tuple[int, ...]",
            "TREE: Group",
            "OPTIONS: dict[str, Option]",
            "",
            body,
            "",
        ]
    )


def _base_class() -> list[str]:
    """Returns the base class of categories. It has no `__setattr__`, which would admit any name."""
    lines = ["class _Category:", f'    """{inspect.getdoc(Category)}"""', ""]
    for name, method in vars(Category).items():
        if inspect.isfunction(method) and not name.startswith("_"):
            lines += [*_method(method), ""]
    return lines[:-1]


def _category_classes(group: Group, prefix: str) -> Iterator[str]:
    """A class for each category below `group`, inner ones first."""
    for node in group.members:
        if isinstance(node, Group):
            yield from _category_classes(node, f"{prefix}{node.name}.")
            yield ""
            yield f"class {_class_name(prefix + node.name)}(_Category):"
            yield from _attributes(node, f"{prefix}{node.name}.")


def _config_class() -> Iterator[str]:
    """The class `IPUConfig`."""
    yield "class IPUConfig(_Category):"
    yield from _attributes(ipu_config.TREE, "", inspect.getdoc(ipu_config.IPUConfig))
    for name in ("__init__", "configure_ipu_system"):
        yield ""
        yield from _method(vars(ipu_config.IPUConfig)[name])


def _attributes(group: Group, prefix: str, doc: str | None = None) -> Iterator[str]:
    """The body of the class of a category."""
    yield from _docstring(doc or group.doc)
    for node in group.members:
        if isinstance(node, Option):
            yield ""
            yield f"    {node.name}: {type_hint(node.type)}"
            yield from _docstring(_option_doc(node))
        else:
            # A category cannot be assigned to.
            yield ""
            yield "    @property"
            yield f"    def {node.name}(self) -> {_class_name(prefix + node.name)}:"
            yield from _docstring(node.doc, "        ")


def _option_doc(option: Option) -> str:
    deprecated = f" Deprecated: {option.deprecated_msg}" if option.deprecated_msg else ""
    return f"{option.doc}{deprecated}\n\nDefault: {option.default!r}."


def _method(method: Any) -> Iterator[str]:
    """A method without its body."""
    yield f"    def {method.__name__}{str(inspect.signature(method)).replace(chr(39), '')}:"
    yield from _docstring(inspect.getdoc(method) or "", "        ")


def _docstring(doc: str, indent: str = "    ") -> list[str]:
    """Returns the lines of a docstring, with an option's single long line wrapped."""
    if "\n" not in doc.split("\n\nDefault: ")[0]:
        paragraphs = [textwrap.fill(part, _WIDTH - len(indent)) for part in doc.split("\n\n")]
        doc = "\n\n".join(paragraphs)
    quoted = f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""'
    return textwrap.indent(quoted.replace("\\", "\\\\"), indent).splitlines()


def _class_name(category: str) -> str:
    words = category.replace(".", "_").strip("_").split("_")
    return "_" + "".join(word.capitalize() for word in words)


def type_hint(hint: Any) -> str:
    """Returns the type of an option as an annotation.

    Args:
        hint: a class, or a `Union`, `List` or `Tuple` of classes.
    """
    if hint is Ellipsis:
        return "..."
    arguments = [type_hint(argument) for argument in typing.get_args(hint)]
    if typing.get_origin(hint) is typing.Union:
        return " | ".join(arguments)
    if arguments:
        return f"{typing.get_origin(hint).__name__}[{', '.join(arguments)}]"
    # Names and values of library options are both strings.
    return "dict[str, str]" if hint is dict else str(hint.__name__)


def _enums() -> list[str]:
    """Returns the names of the enumerations that options are of."""
    hints = [
        hint
        for option in ipu_config.OPTIONS.values()
        for hint in (option.type, *typing.get_args(option.type))
    ]
    return sorted({hint.__name__ for hint in hints if isinstance(hint, enum.EnumMeta)})


if __name__ == "__main__":
    write()
