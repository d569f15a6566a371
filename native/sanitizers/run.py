"""Runs Python with native libraries that were built with a sanitizer.

    make native SANITIZE=thread
    .venv/bin/python native/sanitizers/run.py thread program.py
    .venv/bin/python native/sanitizers/run.py thread -m pytest tests/runtime

Python and TensorFlow are not instrumented: the sanitizer is loaded before them, and looks at our
libraries only. What it finds goes to files, as tests capture what is printed; the files are shown
at the end, and then the exit code is 1. CONTRIBUTING.md says what each sanitizer can find.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUPPRESSIONS = Path(__file__).resolve().parent

# The folders of `site-packages` with native libraries of ours: the plugin, and Poplar.
OURS = ("tensorflow-plugins", "tensorflow_ipu_sdk")

# For each sanitizer: its runtime library, the environment variable with its options, the options.
SANITIZERS = {
    "address": (
        "libasan.so",
        "ASAN_OPTIONS",
        # Python and TensorFlow keep much until the process ends.
        ["detect_leaks=0", "detect_stack_use_after_return=1", "strict_string_checks=1"],
    ),
    "thread": (
        "libtsan.so",
        "TSAN_OPTIONS",
        # Calls such as memcpy count only where our code makes them. TensorFlow does not join all
        # its threads. The largest history, so that reports have both stacks.
        ["ignore_noninstrumented_modules=1", "report_thread_leaks=0", "history_size=7"],
    ),
    "undefined": ("libubsan.so", "UBSAN_OPTIONS", ["print_stacktrace=1"]),
}


def environment_folder(sanitizer: str) -> Path:
    """Returns the virtual environment for one sanitizer."""
    return ROOT / "build" / "sanitized" / sanitizer


def prepare(sanitizer: str) -> Path:
    """Makes an environment that is this one, but for the native libraries.

    TensorFlow loads all that it finds in `site-packages/tensorflow-plugins`, and Poplar's folder is
    beside it, so instrumented libraries need a `site-packages` of their own. It is made of links,
    as are the commands.

    Args:
        sanitizer: One of `SANITIZERS`.

    Returns:
        The folder `site-packages`, without the folders of `OURS`.
    """
    folder = environment_folder(sanitizer)
    if not (folder / "pyvenv.cfg").exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = Path(sysconfig.get_path("platlib"))
    links = folder / packages.relative_to(sys.prefix)
    # What is right is left alone: a program may be running there.
    for link in links.iterdir():
        if link.is_symlink() and (link.name in OURS or not link.exists()):
            link.unlink()
    for package in packages.iterdir():
        link = links / package.name
        if package.name not in OURS and not link.is_symlink():
            link.symlink_to(package)
    for command in Path(sys.prefix, "bin").iterdir():
        link = folder / "bin" / command.name
        if not link.exists():
            link.symlink_to(command)
    return links


def _runtime(name: str) -> str:
    """Returns the path of a library of the compiler."""
    command = [os.environ.get("CXX", "g++"), f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def variables(sanitizer: str, reports: Path) -> dict[str, str]:
    """Returns the environment variables for a sanitizer.

    Args:
        sanitizer: One of `SANITIZERS`.
        reports: Folder for a file of each process in which it finds something.
    """
    runtime, name, options = SANITIZERS[sanitizer]
    suppressions = SUPPRESSIONS / f"{sanitizer}.supp"
    options = [*options, f"log_path={reports / 'report'}"]
    if suppressions.exists():
        options.append(f"suppressions={suppressions}")
    # A sanitizer looks for the functions of the C++ library when it starts, so that is there first.
    preload = [_runtime(runtime), _runtime("libstdc++.so")]
    if sanitizer == "thread":
        preload.append(str(ROOT / "build" / "native-thread" / "libtensorflow_order.so"))
    # The user's options come last, and count.
    given = os.environ.get(name)
    return {
        name: ":".join([*options, *([given] if given else [])]),
        "LD_PRELOAD": ":".join(preload),
        "SANITIZER": sanitizer,
    }


def run(sanitizer: str, arguments: list[str]) -> int:
    """Runs Python under a sanitizer and shows its findings.

    Args:
        sanitizer: One of `SANITIZERS`.
        arguments: Of Python.

    Returns:
        The exit code: that of Python, and 1 where there are reports.
    """
    python = environment_folder(sanitizer) / "bin" / "python"
    missing = [
        path
        for path in (str(python), *variables(sanitizer, Path())["LD_PRELOAD"].split(":"))
        if not Path(path).exists()
    ]
    if missing:  # the dynamic linker would only warn
        raise SystemExit(f"{missing[0]} is missing: make native SANITIZE={sanitizer}")
    with tempfile.TemporaryDirectory() as folder:
        reports = Path(folder)
        environment = {**os.environ, **variables(sanitizer, reports)}
        # -I, as the checkout is not to be searched for packages.
        code = subprocess.run([python, "-I", *arguments], env=environment, check=False).returncode
        found = sorted(reports.iterdir())
        for report in found:
            print(report.read_text(encoding="utf-8", errors="replace"))
    if found:
        print(f"The {sanitizer} sanitizer has found something in {len(found)} process(es).")
    return code or bool(found)


def main() -> None:
    """Prepares the environment of a sanitizer and prints its folder, or runs Python in it."""
    sanitizer, *arguments = sys.argv[1:] or [""]
    if sanitizer not in SANITIZERS or not arguments:
        raise SystemExit(f"usage: run.py {'|'.join(SANITIZERS)} (--prepare | arguments of Python)")
    if arguments == ["--prepare"]:
        print(prepare(sanitizer))
    else:
        raise SystemExit(run(sanitizer, arguments))


if __name__ == "__main__":
    main()
