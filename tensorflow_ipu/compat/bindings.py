"""Full names of a program's names: `tf.nn.relu` is `tensorflow.nn.relu` after an import.

Each scope knows which of its names are imports. A name that is assigned as well, or is an argument,
stands for anything, and is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple, Union

from tensorflow_ipu.compat.rows import canonical

Import = Union[ast.Import, ast.ImportFrom]

_SCOPES = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
)


class NameBinding(NamedTuple):
    """The object that an imported name stands for.

    Args:
        target: full name of the module, function or class.
        statement: the import.
    """

    target: str
    statement: Import


class Reference(NamedTuple):
    """A use of an imported name.

    Args:
        name: the whole full name, as far as attributes go.
        nodes: the expressions: the imported name, then with one attribute more each.
        binding: the imported name that it begins with.
    """

    name: str
    nodes: tuple[ast.expr, ...]
    binding: NameBinding

    def node(self, rest: int) -> ast.expr:
        """Returns the expression without the last `rest` attributes."""
        return self.nodes[len(self.nodes) - 1 - rest]


Environment = dict[str, Union[NameBinding, None]]


class Uses(NamedTuple):
    """The imports of a file, and its uses of imported names.

    Args:
        imports: its import statements.
        references: its uses of imported names, in the order of the file.
        calls: the calls, with the reference that is called.
        names: all names in the file.
        top: the imported names of the module's own scope, with their objects.
    """

    imports: tuple[Import, ...]
    references: tuple[Reference, ...]
    calls: tuple[tuple[ast.Call, Reference], ...]
    names: frozenset[str]
    top: dict[str, NameBinding]


def uses(tree: ast.Module) -> Uses:
    """Finds the imports of a file and its uses of imported names.

    Args:
        tree: of the file.
    """
    environment = _scope(tree, {})
    references = list(_references(tree, environment))
    by_node = {id(reference.nodes[-1]): reference for reference in references}
    calls = [
        (node, by_node[id(node.func)])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and id(node.func) in by_node
    ]
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names.update(name for statement in imports for name, _ in targets(statement))
    imports.sort(key=lambda node: (node.lineno, node.col_offset))
    references.sort(key=lambda one: (one.nodes[0].lineno, one.nodes[0].col_offset))
    top = {name: binding for name, binding in environment.items() if binding is not None}
    return Uses(tuple(imports), tuple(references), tuple(calls), frozenset(names), top)


def targets(statement: Import) -> Iterator[tuple[str, str]]:
    """Yields the names that an import binds, with their full names.

    Args:
        statement: the import; a relative import binds no known name.
    """
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            if alias.asname:
                yield alias.asname, alias.name
            else:
                root = alias.name.split(".")[0]
                yield root, root
        elif not statement.level and statement.module:
            yield alias.asname or alias.name, f"{statement.module}.{alias.name}"


def _inside(scope: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes of a scope; an inner scope is one node."""
    waiting = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def _scope(scope: ast.AST, outer: Environment) -> Environment:
    """Returns the bindings of the names in a scope."""
    found: dict[str, list[NameBinding | None]] = {}
    if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        arguments = scope.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
        found.update({argument.arg: [None] for argument in every})
    unknown = {id(name) for name in _stores_of_none(scope)}
    shared: set[str] = set()
    for node in _inside(scope):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for name, target in targets(node):
                found.setdefault(name, []).append(NameBinding(target, node))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.setdefault(node.name, []).append(None)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            if id(node) not in unknown:
                found.setdefault(node.id, []).append(None)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            shared.update(node.names)
    own = {name: _one(bindings) for name, bindings in found.items() if name not in shared}
    return {**outer, **own}


def _stores_of_none(scope: ast.AST) -> Iterator[ast.Name]:
    """Yields the names in `name = None`: for modules that are not installed."""
    for node in _inside(scope):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            if node.value.value is None:
                yield from (name for name in node.targets if isinstance(name, ast.Name))


def _one(bindings: list[NameBinding | None]) -> NameBinding | None:
    """Returns the one binding of a name that a scope binds several times, None if they differ."""
    first = bindings[0]
    if first is None:
        return None
    target = canonical(first.target)
    if any(one is None or canonical(one.target) != target for one in bindings):
        return None
    return first


def _references(node: ast.AST, environment: Environment) -> Iterator[Reference]:
    """Yields the references in a node and below it."""
    reference = _reference(node, environment)
    if reference is not None:
        yield reference
        return
    for child in ast.iter_child_nodes(node):
        inner = environment
        if isinstance(child, _SCOPES):
            # Decorators, defaults and bases are outside the scope, but their names are the same.
            inner = _scope(child, environment)
        yield from _references(child, inner)


def _reference(node: ast.AST, environment: Environment) -> Reference | None:
    """Returns the reference that an expression is, if it is one."""
    nodes: list[ast.expr] = []
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        nodes.append(node)
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    binding = environment.get(node.id)
    if binding is None or isinstance(node.ctx, ast.Store):
        return None
    nodes.append(node)
    full = ".".join([binding.target, *reversed(names)])
    return Reference(full, tuple(reversed(nodes)), binding)
