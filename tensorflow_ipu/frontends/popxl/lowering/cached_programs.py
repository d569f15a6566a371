"""Compiled programs of Irs in files of a cache.

A file is a zip archive: what `compiler.store` writes of a compiled program, and `popxl.json`, which
says what program it is.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tensorflow_ipu.compiler import fingerprint, requests, store
from tensorflow_ipu.compiler.cluster import Cluster
from tensorflow_ipu.compiler.executable import Executable
from tensorflow_ipu.compiler.ir.program import Program
from tensorflow_ipu.frontends.common import executable_cache
from tensorflow_ipu.util import archives, private_files

_MEMBER = "popxl.json"


def prepare(cluster: Cluster, ordinal: int, folder: str, described: str) -> tuple[Executable, bool]:
    """Compiles a program, and keeps it in a cache unless it is there.

    Args:
        cluster: the program.
        ordinal: of the TensorFlow device.
        folder: of the cache; made if it is missing.
        described: what the program depends on besides: device and options.

    Returns:
        The compiled program, and whether it was in the cache.

    Raises:
        OSError: If the file cannot be written.
        tf.errors.OpError: As at the first run of a program.
    """
    traced = Program.from_library(cluster.library(), cluster.entry)
    digest = hashlib.sha256(
        fingerprint.fingerprint(traced, described.encode()).encode()
    ).hexdigest()

    def check(path: Path) -> None:
        with archives.reading(path, "an executable of a session of PopXL") as archive:
            found = archives.read_json(archive, _MEMBER).get("program")
            if found != digest:
                raise ValueError(f"it is that of another program, {found}")

    entry = executable_cache.Entry(folder, digest)
    is_there = entry.is_there(check)
    if not is_there:
        executable_cache.log_compiling()
    executable, _ = requests.compile_ahead(cluster, ordinal)
    if not is_there:
        private_files.make_folder(folder)
        store.save(executable, entry.path, {_MEMBER: json.dumps({"program": digest}).encode()})
    return executable, is_there
