"""Kills trainings at random points, and lets them go on.

    python -m tests.support.programs.kills --points 10 --seed 0

kills one training of each kind ten times, and says where. See `KilledTraining`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[3]

KINDS = ("keras", "session", "estimator")
RUNS_PER_SAVE = 3  # launches of the device between two checkpoints

_HALF_WRITTEN = re.compile(r"_temp$|tempstate|\.tmp")


class Point(NamedTuple):
    """Where a process is killed.

    Attributes:
        what: "run": after so many launches; "file": when so many times a file of a checkpoint was
            made, written or renamed.
        number: How many.
    """

    what: str
    number: int

    def __str__(self) -> str:
        return f"{self.what} {self.number}"


class Watch:
    """Counts the changes of files in a folder and its subfolders (inotify)."""

    _MODIFY, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x80, 0x100, 0x200
    _ALL = _MODIFY | _MOVED_TO | _CREATE | _DELETE
    _HEADER = struct.Struct("iIII")

    def __init__(self, folder: Path) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.inotify_init1(os.O_NONBLOCK)
        self._folders: dict[int, Path] = {}
        self.count = 0
        for path in (folder, *folder.rglob("*/")):
            self._add(path)

    def _add(self, folder: Path) -> None:
        number = self._libc.inotify_add_watch(self._file, os.fsencode(folder), self._ALL)
        if number >= 0:  # else it has gone already
            self._folders[number] = folder

    def wait(self, *others: int) -> list[int]:
        """Waits until something happens, here or at other file descriptors; returns which do."""
        ready, _, _ = select.select([self._file, *others], [], [])
        if self._file in ready:
            self._read(os.read(self._file, 1 << 16))
        return ready

    def _read(self, events: bytes) -> None:
        while events:
            number, _, _, size = self._HEADER.unpack_from(events)
            name = events[self._HEADER.size :][:size].rstrip(b"\0")
            path = self._folders[number] / os.fsdecode(name)
            if path.is_dir():
                self._add(path)
            self.count += 1
            events = events[self._HEADER.size + size :]

    def close(self) -> None:
        """Ends watching."""
        os.close(self._file)


def _train(job: dict[str, Any]) -> None:
    """Runs a training in this process, and kills it if that is to be."""
    from tests.support.programs import resumable  # and with it TensorFlow

    runs = 0

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def after_run() -> None:
        nonlocal runs
        runs += 1
        if job["what"] == "run" and runs == job["number"]:
            kill()

    outcome = resumable.TRAININGS[job["kind"]](Path(job["folder"]), job["saves"], after_run)
    if job["what"] is not None:
        kill()  # it was shorter than its point
    np.savez(job["result"], first=outcome.first, **outcome.values)


def _run(job: dict[str, Any]) -> dict[str, int]:
    """Runs a training in a child, which is killed if that is to be."""
    watch = Watch(Path(job["folder"]))
    child = os.fork()
    if child == 0:
        try:
            _train(job)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    ends = os.pidfd_open(child)
    while ends not in watch.wait(ends):
        if job["what"] == "file" and watch.count >= job["number"]:
            os.kill(child, signal.SIGKILL)
    os.close(ends)
    watch.close()
    _, status = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), "files": watch.count}


def _serve(jobs: IO[str]) -> None:
    """Runs the jobs, one a line. The children have TensorFlow, but nothing has started there."""
    import tensorflow as tf

    import tests.support.programs.resumable  # noqa: F401

    tf.get_logger().setLevel("ERROR")
    for line in jobs:
        print(json.dumps(_run(json.loads(line))), flush=True)


class Trainer:
    """A process that has imported TensorFlow, and its children, which train. For a `with`."""

    def __enter__(self) -> Trainer:
        command = [sys.executable, "-m", "tests.support.programs.kills", "--serve"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(self, *_: Any) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def train(self, kind: str, folder: Path, saves: int, point: Point | None = None) -> int:
        """Trains until it is killed, if it is to be, or to the end.

        Args:
            kind: One of `KINDS`.
            folder: Where its checkpoints are, and in `<folder>.npz` what it comes to.
            saves: Checkpoints in all.
            point: Where to kill it.

        Returns:
            How often something happened to the files in the folder.
        """
        folder.mkdir(exist_ok=True)
        job = {"kind": kind, "folder": str(folder), "saves": saves, "result": f"{folder}.npz"}
        job |= {"what": point and point.what, "number": point and point.number}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert answer["code"] == (-signal.SIGKILL if point else 0), f"{kind}: {answer}"
        return answer["files"]


def points(count: int, seed: str, files_per_save: int) -> Iterator[Point]:
    """Yields random points, all within two checkpoints from where a training goes on."""
    draw = random.Random(seed)
    for number in range(count):
        if number % 2 == 0:
            yield Point("file", draw.randint(1, 2 * files_per_save))
        else:
            yield Point("run", draw.randint(1, 2 * RUNS_PER_SAVE))


def check(trainer: Trainer, kind: str, folder: Path, count: int, seed: int) -> Iterator[str]:
    """Kills one training repeatedly, and compares it with an undisturbed one.

    Args:
        trainer: What trains.
        kind: One of `KINDS`.
        folder: For all files.
        count: How often it is killed.
        seed: Of the points where.

    Yields:
        A line for each kill and for the end.

    Raises:
        AssertionError: If it does not come to the same bits.
    """
    saves = count + 2
    straight, killed = folder / f"{kind}-straight", folder / f"{kind}-killed"
    files = trainer.train(kind, straight, saves)
    for point in points(count, f"{seed} {kind}", files // saves):
        before = set(killed.rglob("*"))
        trainer.train(kind, killed, saves, point)
        made = {*killed.rglob("*")} - before
        left = sorted(path.name for path in made if _HALF_WRITTEN.search(path.name))
        yield f"{kind}: killed at {point}; half-written: {', '.join(left) or 'nothing'}"
    trainer.train(kind, killed, saves)
    with np.load(f"{killed}.npz") as found, np.load(f"{straight}.npz") as expected:
        first = int(found["first"])
        names = [name for name in expected.files if name != "first"]
        differences = [n for n in names if not np.array_equal(found[n], expected[n])]
        assert set(found.files) == set(expected.files)
    assert not differences, f"{kind}, seed {seed}: not the same after {count} kills: {differences}"
    yield f"{kind}: went on after checkpoint {first} of {saves}; {len(names)} variables equal"


def main() -> None:
    """Kills trainings of all kinds, or serves as `Trainer`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=10, help="how often each kind is killed")
    parser.add_argument("--seed", type=int, default=0, help="of the points")
    parser.add_argument("--serve", action="store_true", help="used by itself")
    arguments = parser.parse_args()
    if arguments.serve:
        return _serve(sys.stdin)
    with tempfile.TemporaryDirectory() as folder, Trainer() as trainer:
        for kind in KINDS:
            for line in check(trainer, kind, Path(folder), arguments.points, arguments.seed):
                print(line, flush=True)


if __name__ == "__main__":
    main()
