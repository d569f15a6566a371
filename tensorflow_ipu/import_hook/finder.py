"""The import finder that serves the modules of `tables.py` under all their names.

Every Python interpreter of an environment with tensorflow_ipu runs this file when it starts; the
rules of `tables.py` hold here too.

IPU programs reach `ipu.keras` through Keras as well: `tf.keras.ipu.PipelineStage`. So the modules
of Keras have it as an attribute `ipu`. Otherwise it would need a function `__getattr__` in modules
that are not ours, and importing them early would cost every program time. They get it when the
program imports something of ours, or when they are loaded after that. At that moment `tf.keras`
becomes Keras 2, too (`versions/legacy_keras.py`). In other programs TensorFlow and Keras are loaded
as if nothing was installed.
"""

import sys

from tensorflow_ipu.import_hook import lazy, tables
from tensorflow_ipu.import_hook.tables import (
    ADDONS,
    KERAS,
    KERAS_IPU,
    PACKAGE,
    PLUGIN,
    POPART,
    POPART_CORE,
    POPDIST,
    POPLAR,
    POPXL,
    POPXL_ADDONS,
    PUBLIC,
    PVA,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Optional

# Full names of the modules below packages that no file stands for, and of these packages.
_BELOW = (
    *(f"{POPLAR}.{name}" for name in tables.POPLAR_MODULES),
    *(f"{ADDONS}.{name}" for name in tables.ADDONS_MODULES),
)
_PACKAGES = (PLUGIN, POPLAR, ADDONS, *sorted({name.rpartition(".")[0] for name in _BELOW}))

# Public package -> names of its modules in a table.
ROOTS = {
    PACKAGE: ("", tables.MODULES),
    PUBLIC: ("", tables.MODULES),
    POPLAR: ("", tables.POPLAR_MODULES),
    ADDONS: ("", tables.ADDONS_MODULES),
    POPDIST: ("", tables.POPDIST_MODULES),
    POPXL: ("", {**tables.POPXL_MODULES, **tables.POPXL_FUNCTION_PATHS}),
    POPXL_ADDONS: ("", tables.POPXL_ADDONS_MODULES),
    POPART: ("", tables.POPART_MODULES),
    POPART_CORE: ("", tables.POPART_CORE_MODULES),
    PVA: ("", tables.PVA_MODULES),
    **{name + ".ipu": ("keras.", tables.MODULES) for name in KERAS},
}

# Modules whose import does not mean that the program uses IPUs: pytest loads its plugin wherever it
# is installed. The others are loaded together with a program's use.
_NO_USE = (KERAS_IPU, PACKAGE + ".pytest_plugin", PACKAGE + ".import_hook.versions")

# Prefixes of the names that the finder examines; others pass at once.
_BEGINNINGS = (
    *(PACKAGE + ".", PUBLIC, PLUGIN, ADDONS, POPDIST, POPXL, POPART, PVA),
    *(name + ".ipu" for name in KERAS),
)


class _Package:
    """Loader of a package with only modules of the tables, which it imports when used."""

    @staticmethod
    def create_module(spec: "ModuleSpec") -> None:
        """Leaves the creation of the module to the import system."""

    @staticmethod
    def exec_module(module: "ModuleType") -> None:
        """Gives the module a function that finds its modules."""
        prefix = module.__name__ + "."
        names = (*_BELOW, *_PACKAGES)
        inside = [name[len(prefix) :].split(".")[0] for name in names if name.startswith(prefix)]

        def get_attribute(name: str) -> "Any":
            if name in inside:
                import importlib

                return importlib.import_module(prefix + name)
            raise AttributeError(lazy.missing(prefix + name, prefix + name))

        module.__getattr__ = get_attribute  # type: ignore[method-assign]
        module.__dir__ = lambda: sorted({*vars(module), *inside})  # type: ignore[method-assign]


class _Alias:
    """Loader of another name of a module."""

    def __init__(self, module: str) -> None:
        """Remembers the name that the module has already."""
        self.module = module

    @staticmethod
    def create_module(spec: "ModuleSpec") -> None:
        """Leaves the creation of a module to the import system; `exec_module` drops it."""

    def exec_module(self, module: "ModuleType") -> None:
        """Replaces the new module by the real one.

        The import system then returns the real module, with its own `__name__` and `__spec__`.
        """
        import importlib

        sys.modules[module.__name__] = importlib.import_module(self.module)
        if module.__name__ in ROOTS:
            _name_loaded(module.__name__)


class _ObservedLoader:
    """Loader that wraps a module's own loader, and calls a function afterwards."""

    def __init__(self, loader: "Any", then: "Callable[[Any], None]") -> None:
        """Stores the module's own loader and the function."""
        self.loader = loader
        self.then = then

    def create_module(self, spec: "ModuleSpec") -> "Any":
        """Creates the module by its own loader."""
        return self.loader.create_module(spec)

    def exec_module(self, module: "Any") -> None:
        """Loads the module, which keeps no trace of this loader."""
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.then(module)


class Finder:
    """Import finder for the modules of the tables, under all their names."""

    @classmethod
    def find_spec(
        cls, fullname: str, path: "Optional[Sequence[str]]" = None, target: "Any" = None
    ) -> "Optional[ModuleSpec]":
        """Finds a module; the import system calls this.

        Args:
            fullname: name of the module.
            path: where its package is.
            target: module to be reloaded, if any.

        Returns:
            How to load it, or None when other finders know.

        Raises:
            ModuleNotFoundError: there is no public module of this name.
        """
        if not fullname.startswith(_BEGINNINGS):  # quick: every import of every program comes here
            return _find_observed(fullname, path) if fullname in _OBSERVED else None
        if fullname in _PACKAGES:
            return _spec(fullname, _Package)
        if not (fullname + ".").startswith(tuple(root + "." for root in ROOTS)):
            return None
        _use(fullname)
        return _find_public(fullname, path)


def install() -> None:
    """Makes the public names importable in this process."""
    if Finder not in sys.meta_path:
        sys.meta_path.insert(0, Finder)


def _find_public(fullname: str, path: "Optional[Sequence[str]]") -> "Optional[ModuleSpec]":
    """Finds a module of the tables."""
    if fullname == PUBLIC:
        return _spec(fullname, _Alias(PACKAGE))
    root, name, table = _split(fullname)
    if root == PACKAGE and name in tables.OWN_PATHS:
        return _spec(fullname, _Alias(f"{PACKAGE}.{tables.OWN_PATHS[name]}"))
    if name in table and f"{PACKAGE}.{table[name]}" != fullname:
        return _spec(fullname, _Alias(f"{PACKAGE}.{table[name]}"))
    # Without the attribute `name` of the error: the statement `from package import module` takes
    # an error with it for its own, and words it anew without the reason.
    if root == PACKAGE and (name in table or _is_file(fullname, path)):
        return None
    from tensorflow_ipu.import_hook import former_names

    known = table is tables.MODULES
    explained = former_names.explain(f"{PUBLIC}.{_public(name)}" if known else fullname)
    if explained is not None:
        raise ModuleNotFoundError(explained)
    if root == PACKAGE:
        return None
    raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def _public(name: str) -> str:
    """Returns the public name of a module that is asked for by the place of its package.

    `from package import name` asks for a module below the package's own name.
    """
    package, _, last = name.rpartition(".")
    for public, path in tables.MODULES.items():
        if path == package:
            return f"{public}.{last}"
    return name


def _is_file(fullname: str, path: "Optional[Sequence[str]]") -> bool:
    """Returns whether there is a file for a module."""
    from importlib.machinery import PathFinder

    return PathFinder.find_spec(fullname, path) is not None


def _split(fullname: str) -> "tuple[str, str, dict[str, str]]":
    """Splits a name into the package, and the name in a table."""
    root = next(root for root in ROOTS if (fullname + ".").startswith(root + "."))
    prefix, table = ROOTS[root]
    return root, (prefix + fullname[len(root) + 1 :]).rstrip("."), table


def _name_loaded(root: str) -> None:
    """Gives the modules that a package has loaded the names of its table, too.

    So importing one later finds it, and leaves the attributes that the package has alone: some are
    functions with the name of their module.
    """
    prefix, table = ROOTS[root]
    for name, path in table.items():
        loaded = sys.modules.get(f"{PACKAGE}.{path}")
        if len(name) > len(prefix) and name.startswith(prefix) and loaded is not None:
            public = f"{root}.{name[len(prefix) :]}"
            sys.modules.setdefault(public, loaded)
            parent, _, child = public.rpartition(".")
            package = sys.modules.get(parent)
            if package is not None and not hasattr(package, child):
                setattr(package, child, loaded)


def _use(fullname: str) -> None:
    """Records the use of IPUs: Keras is Keras 2 from now on, with the attribute `ipu`."""
    if KERAS_IPU in sys.modules:
        return
    if KERAS_IPU.startswith(fullname + "."):  # a package that is imported for it
        return
    if fullname.startswith(_NO_USE) and fullname != PACKAGE + ".import_hook.versions.keras2":
        return
    import importlib

    if "tensorflow" in sys.modules:
        _complete(sys.modules["tensorflow"])
    importlib.import_module(KERAS_IPU)


def _complete(tensorflow: "Any") -> None:
    """Adds Keras 2 and Estimators, which programs for IPUs expect, to a newer TensorFlow."""
    from tensorflow_ipu.import_hook.versions import estimators, legacy_keras

    legacy_keras.select(tensorflow)
    estimators.provide(tensorflow)


# Actions for modules that a program loads after it has imported something of ours.
_OBSERVED: "dict[str, Callable[[Any], None]]" = {
    "tensorflow": _complete,
    **dict.fromkeys(KERAS, lambda _: lazy.show_in_keras()),
}


def _check_release(path: "Optional[Sequence[str]]") -> None:
    """Raises if the native library to load was built for another TensorFlow.

    Raises:
        ImportError: it is another release.
    """
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec("tensorflow", path)
    if spec is not None and spec.origin is not None:
        from pathlib import Path

        from tensorflow_ipu.import_hook.versions import built_for

        built_for.check(Path(spec.origin).parent)


def _find_observed(fullname: str, path: "Optional[Sequence[str]]") -> "Optional[ModuleSpec]":
    """Finds a module that needs an action after its import, if the program uses IPUs."""
    if fullname == "tensorflow":  # loads the native library in all programs
        _check_release(path)
    if KERAS_IPU not in sys.modules:
        return None
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(fullname, path)
    if spec is not None and spec.loader is not None:
        loader = _ObservedLoader(spec.loader, _OBSERVED[fullname])
        spec.loader = loader  # type: ignore[assignment]
    return spec


def _spec(fullname: str, loader: "Any") -> "ModuleSpec":
    from importlib.machinery import ModuleSpec

    return ModuleSpec(fullname, loader, is_package=loader is _Package)
