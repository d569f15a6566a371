"""The command `popc`: compiles codelets with the host's compiler.

A `.gp` file is a shared library with a table of its vertices, and behind it an archive of the
objects that it was linked from, so that files can be joined. Sources are preprocessed, compiled
once for their debug information, which has the names of vertices and fields, and once with the
table.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tensorflow_ipu.frontends.poplar import sdk
from tensorflow_ipu.frontends.poplar.vertices import UnsupportedField, Vertex, vertices

#: What the original's build files read: the third word is the version.
VERSION = "POPLAR version 3.4.0 (tensorflow_ipu)"

#: For all sources. Warnings of the headers of the library are not the user's; sums of products are
#: rounded twice, as in plain C++.
_FLAGS = (
    "-D__POPC__",
    "-fPIC",
    "-fno-access-control",
    "-fno-gnu-unique",  # or a library with such variables cannot be unloaded
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-Wno-attributes",
    "-Wno-psabi",
    "-Wno-unknown-pragmas",
)
_STANDARD = "-std=c++20"
_OPTIMIZATION = "-O3"

_SUFFIX = ".gp"

#: Debug information of all classes, also of those that nothing uses.
_DEBUG = (
    "-g",
    "-gdwarf-4",
    "-O0",
    "-w",
    "-fno-eliminate-unused-debug-types",
    "-femit-class-debug-always",
)

#: Attributes of the chip's compiler that the host's refuses.
_TARGETS = re.compile(r"__attribute__\s*\(\(\s*target\s*\(\s*\"(?:supervisor|worker)\"\s*\)\s*\)\)")

#: What debug information describes by addresses that only a linker knows.
_THREAD_LOCAL = re.compile(r"\b(?:thread_local|__thread)\b")

_ASSEMBLY = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s+(?:volatile|__volatile__))?\s*\(")
_LINE = re.compile(r'^# (\d+) "([^"]*)"((?: \d)*)', re.MULTILINE)


class CompilationError(Exception):
    """Codelets that do not compile, with the compiler's text."""


class Options(NamedTuple):
    """The parts of the command line.

    Args:
        inputs: sources, and `.gp` files to join.
        output: the `.gp` file to write.
        flags: flags for the compiler.
    """

    inputs: tuple[Path, ...]
    output: Path | None
    flags: tuple[str, ...]


def compiler() -> str:
    """Returns the host's compiler: `CXX`, else g++."""
    return os.environ.get("CXX", "g++")


def compile_codelets(options: Options, output: Path) -> None:
    """Compiles and joins sources and `.gp` files to one `.gp` file.

    Args:
        options: inputs and flags.
        output: the file to write.

    Raises:
        CompilationError: if the compiler refuses a source, a field's type is not supported, or a
            `.gp` file is not one of this popc.
    """
    with tempfile.TemporaryDirectory(prefix="popc") as folder:
        objects: dict[str, Path] = {}  # an object that two files have is one
        for path in options.inputs:
            made = _extracted if path.suffix == _SUFFIX else _compile
            objects.update((found.stem, found) for found in made(path, options.flags, Path(folder)))
        table = Path(folder) / "table.cpp"
        table.write_text(_collection(sorted(objects)), encoding="utf-8")
        library = Path(folder) / "codelets.so"
        _run(
            [
                compiler(),
                "-std=c++17",
                "-shared",
                "-fPIC",
                "-O1",
                "-Wl,--no-undefined",
                "-Wl,-Bsymbolic",
            ]
            + [f"-isystem{path}" for path in sdk.includes()]
            + [str(table), *map(str, objects.values()), "-o", str(library)]
        )
        with zipfile.ZipFile(library, "a", zipfile.ZIP_DEFLATED) as archive:
            for found in objects.values():
                archive.write(found, found.name)
        output.parent.mkdir(parents=True, exist_ok=True)
        # Beside its place and moved there: another process may read it.
        beside = output.with_name(f".{output.name}.{os.getpid()}")
        shutil.copyfile(library, beside)
        os.replace(beside, output)


def cached(options: Options) -> Path:
    """Returns the kept `.gp` file of sources, compiled if something has changed.

    Args:
        options: inputs and flags.

    Raises:
        CompilationError: as of `compile_codelets`.
    """
    key = hashlib.sha256()
    for part in (VERSION, compiler(), *_FLAGS, *options.flags, *map(str, sdk.includes())):
        key.update(part.encode() + b"\0")
    for source in options.inputs:
        if source.suffix == _SUFFIX:
            key.update(source.read_bytes())
        else:  # with what it includes, and the line numbers of messages
            key.update(_preprocessed(source, options.flags).encode())
    for header in sorted((sdk.folder() / "include" / "poplar" / "core").glob("*.hpp")):
        key.update(header.read_bytes())
    path = cache() / f"{key.hexdigest()[:32]}.gp"
    if not path.exists():
        compile_codelets(options, path)
    return path


def cache() -> Path:
    """Returns the folder in which compiled codelets are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tensorflow_ipu" / "codelets"


def _run(command: Sequence[str]) -> str:
    """Runs the compiler and shows its warnings; returns its output."""
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise CompilationError(
            f"popc: error: the compiler '{command[0]}' is not installed: apt install g++, or name "
            "another one in CXX\n"
        ) from error
    if process.returncode != 0:
        raise CompilationError(process.stderr or process.stdout)
    sys.stderr.write(process.stderr)
    return process.stdout


def _has(flags: Sequence[str], *beginnings: str) -> bool:
    return any(flag.startswith(beginnings) for flag in flags)


def _command(flags: Sequence[str]) -> list[str]:
    """Returns the compiler with the flags of all sources and the user's."""
    standard = [] if _has(flags, "-std=", "--std=") else [_STANDARD]
    includes = [f"-isystem{path}" for path in sdk.includes()]
    return [compiler(), *_FLAGS, *standard, *includes, *flags]


def _preprocessed(source: Path, flags: Sequence[str]) -> str:
    """Returns the text of a source with all that it includes."""
    text = _run(
        [*_command(flags), "-E", "-include", "poplar/core/DescribeCodelets.hpp", str(source)]
    )
    return _TARGETS.sub("", text)


def _check_assembly(text: str) -> None:
    """Raises an error for inline assembly in the user's part of a source.

    Args:
        text: the preprocessed source, whose line markers say where a line is from.
    """
    for match in _ASSEMBLY.finditer(text):
        markers = list(_LINE.finditer(text, 0, match.start()))
        marker = markers[-1] if markers else None
        if marker is None or "3" in marker[3].split():  # a header of the system
            continue
        line = int(marker[1]) + text.count("\n", marker.end() + 1, match.start())
        raise CompilationError(
            f"{marker[2]}:{line}: error: inline assembly of the chip cannot run here; "
            "write the step in C++, in a branch without __IPU__\n"
        )


def _extracted(source: Path, flags: Sequence[str], folder: Path) -> list[Path]:
    """Returns the objects of a `.gp` file.

    Args:
        source: the file.
        flags: flags for the compiler, which objects do not need.
        folder: the folder for the objects.
    """
    del flags
    try:
        with zipfile.ZipFile(source) as archive:
            return [Path(archive.extract(name, folder)) for name in archive.namelist()]
    except zipfile.BadZipFile as error:
        raise CompilationError(
            f"popc: error: {source}: not a .gp file of this popc; name its sources instead\n"
        ) from error


def _compile(source: Path, flags: Sequence[str], folder: Path) -> list[Path]:
    """Compiles one source to an object with its table, whose name stands for all that is in it.

    Args:
        source: the file.
        flags: flags for the compiler.
        folder: the folder for files on the way.
    """
    text = _preprocessed(source, flags)
    _check_assembly(text)
    key = "\0".join((text, *flags))
    number = hashlib.sha256(key.encode()).hexdigest()[:32]
    preprocessed = folder / f"{number}.ii"
    preprocessed.write_text(_THREAD_LOCAL.sub("", text), encoding="utf-8")
    base = [*_command(flags), "-fpreprocessed", "-x", "c++-cpp-output"]
    described = folder / f"{number}.debug.o"
    _run([*base, *_DEBUG, "-c", str(preprocessed), "-o", str(described)])
    try:
        found = vertices(described)
    except UnsupportedField as error:
        raise CompilationError(f"{source}: error: {error}\n") from error
    preprocessed.write_text(text + _table(found, number), encoding="utf-8")
    optimization = [] if _has(flags, "-O") else [_OPTIMIZATION]
    result = folder / f"{number}.o"
    _run([*base, *optimization, "-march=native", "-c", str(preprocessed), "-o", str(result)])
    return [result]


def _table(found: Sequence[Vertex], number: str) -> str:
    """Returns C++ that describes vertices, as part of their source."""
    lines = ['\n# 1 "popc" 3', "namespace {"]
    for v, vertex in enumerate(found):
        lines.append(f"using PopcV{v} = {vertex.name};")
        if vertex.fields:
            rows = ", ".join(
                f"::poplar::core::Describe<decltype(PopcV{v}::{name})>::as("
                f'"{name}", __builtin_offsetof(PopcV{v}, {name}))'
                for name in vertex.fields
            )
            lines.append(f"const ::poplar::core::CodeletField popc_fields{v}[] = {{{rows}}};")
    rows = ", ".join(
        f"::poplar::core::describeVertex<PopcV{v}>("
        + (f"popc_fields{v}, {len(vertex.fields)})" if vertex.fields else "nullptr, 0)")
        for v, vertex in enumerate(found)
    )
    if found:
        lines.append(f"const ::poplar::core::CodeletType popc_types[] = {{{rows}}};")
    lines.append("}")
    types = "popc_types" if found else "nullptr"
    lines.append(
        f'extern "C" const ::poplar::core::CodeletTable popc_table{number} = '
        f"{{::poplar::core::kCodeletTableVersion, {types}, {len(found)}}};"
    )
    return "\n".join(lines) + "\n"


def _collection(numbers: Sequence[str]) -> str:
    """Returns C++ with the function that returns the tables of all objects as one."""
    declarations = "\n".join(
        f'extern "C" const poplar::core::CodeletTable popc_table{n};' for n in numbers
    )
    tables = ", ".join(f"&popc_table{n}" for n in numbers)
    return f"""#include <poplar/core/CodeletTable.hpp>
#include <vector>
{declarations}
extern "C" const poplar::core::CodeletTable *poplar_codelet_table() {{
  using poplar::core::CodeletTable;
  static std::vector<poplar::core::CodeletType> types;
  static CodeletTable all{{poplar::core::kCodeletTableVersion, nullptr, 0}};
  if (all.types == nullptr) {{
    const CodeletTable *const tables[] = {{{tables}}};
    for (const CodeletTable *table : tables) {{
      types.insert(types.end(), table->types, table->types + table->numTypes);
    }}
    all.types = types.data();
    all.numTypes = types.size();
  }}
  return &all;
}}
"""


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, Options]:
    """Returns the command line in parts.

    Args:
        arguments: without the name of the command.
    """
    parser = argparse.ArgumentParser(
        prog="popc", description="Compile codelets for Poplar with the host's compiler."
    )
    parser.add_argument("inputs", nargs="*", type=Path, help="sources, and .gp files to join")
    parser.add_argument("-o", dest="output", type=Path, help="the .gp file to write")
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument(
        "-target", "--target", help="chips of the original; code is made for this machine"
    )
    parser.add_argument(
        "--cached", action="store_true", help="print the path of a kept file instead of writing one"
    )
    flags, rest = [], []
    waiting = False
    for argument in arguments:
        if waiting or re.match(r"-(I|D|U|W|f|m|O|std|-std|g|include)", argument):
            flags.append(argument)
            # Flags whose value is an argument of its own.
            waiting = not waiting and argument in ("-I", "-D", "-U", "-include")
        else:
            rest.append(argument)
    parsed = parser.parse_args(rest)
    return parsed, Options(tuple(parsed.inputs), parsed.output, tuple(flags))


def main(arguments: Sequence[str] | None = None) -> int:
    """Compiles codelets; returns the exit code.

    Args:
        arguments: without the name of the command; those of the process if not given.
    """
    parsed, options = parse(sys.argv[1:] if arguments is None else arguments)
    if parsed.version:
        print(VERSION)
        return 0
    if not options.inputs:
        print("popc: error: no input files", file=sys.stderr)
        return 1
    for source in options.inputs:
        if not source.exists():
            print(f"popc: error: {source}: No such file or directory", file=sys.stderr)
            return 1
    try:
        if parsed.cached:
            print(cached(options))
        else:
            compile_codelets(options, options.output or Path("a.gp"))
    except CompilationError as error:
        sys.stderr.write(str(error))
        return 1
    except OSError as error:  # of the output, or of the cache
        print(f"popc: error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
