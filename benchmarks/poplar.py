"""Times C++ programs for Poplar against the same loops as plain C++ on two threads.

* triad: `a = b + k * c` of 2^24 floats, vectorized loops; wanted: >= 0.6 of plain C++.
* stencil: seven points on 256^3 floats, a vertex for each plane; wanted: >= 0.5 of plain C++.
* vertices: a million vertices in one compute set; wanted: built in <= 5 s, run in <= 0.2 s.

Each ratio is the time of plain C++ by ours: the best of five runs of ten repetitions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tensorflow_ipu.frontends.poplar import sdk

SOURCE = Path(__file__).parent / "poplar" / "programs.cpp"


def times() -> dict[str, tuple[float, float]]:
    """Compiles and runs the programs. Returns two times in s for each name."""
    environment = {**os.environ, **sdk.variables(os.environ)}
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "programs")
        command = ["g++", "-std=c++17", "-O3", "-march=native", str(SOURCE), "-lpoplar"]
        subprocess.run([*command, "-lpthread", "-o", program], env=environment, check=True)
        output = subprocess.run(
            [program], env=environment, check=True, capture_output=True, text=True
        ).stdout
    lines = [line.split() for line in output.splitlines()]
    return {name: (float(first), float(second)) for name, first, second in lines}


def main() -> int:
    """Prints ratios and times."""
    measured = times()
    for name in ("triad", "stencil"):
        ours, plain = measured[name]
        print(f"{name}: {1e3 * ours:.1f} ms, plain C++ {1e3 * plain:.1f} ms: {plain / ours:.2f}")
    build, run = measured["vertices"]
    print(f"vertices: 1000000 built in {build:.1f} s, run in {run:.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
