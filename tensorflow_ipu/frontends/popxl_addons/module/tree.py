"""`ModuleTree`: modules with others as parts, which have names or numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tensorflow_ipu.frontends import popxl
from tensorflow_ipu.frontends.popxl_addons.module.state import ModuleState

if TYPE_CHECKING:
    from typing_extensions import Self


class ModuleTree(popxl.Module):
    """A module with others as parts."""

    _state: ModuleState

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes the state, so that submodules can be set from the first line of `__init__` on."""
        module = super().__new__(cls)
        module._state = ModuleState()
        return module

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{len(self._state.children)} submodules]"

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleTree):
            self._add_child(name, value)
        super().__setattr__(name, value)

    def _add_child(self, name: str, module: ModuleTree) -> None:
        if name in self._state.children or name in self._state.factories:
            raise ValueError(
                f"{name!r} already exists in {type(self).__name__}. Give each submodule and "
                "variable a name of its own."
            )
        self._state.children[name] = module._state
        module.set_name_scope(name)

    @classmethod
    def from_list(cls, sub_modules: Iterable[ModuleTree]) -> Self:
        """Makes a module of others: parts with the names "0", "1", and so on.

        Args:
            sub_modules: the modules, also found as `module[i]`.
        """
        module, parts = cls(), list(sub_modules)
        module._state.items = parts
        for number, part in enumerate(parts):
            module._add_child(str(number), part)
        return module

    def _listed(self) -> list[Any]:
        if self._state.items is None:
            raise AttributeError(
                f"{type(self).__name__} has no numbered parts. Module.from_list makes modules that "
                "have."
            )
        return self._state.items

    def __getitem__(self, key: int) -> Any:
        return self._listed()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._listed())

    def __bool__(self) -> bool:
        """A module is true, also one without parts: programs ask so whether there is one."""
        return True

    def __len__(self) -> int:
        return len(self._listed())

    def get(self, key: int | str) -> Any:
        """Returns a part of a module that `from_list` made.

        Args:
            key: its number.

        Raises:
            AttributeError: If the module was made in another way.
        """
        return self._listed()[int(key)]

    def set_name_scope(self, name: str) -> None:
        """Sets the name scope that calls of the module are in.

        Args:
            name: the scope.
        """
        self._state.scope = name
