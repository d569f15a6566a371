"""Tests of `tensorflow-ipu run`: as `python program.py`, with the names that it lacks."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

PROGRAM = """\
import sys
import numpy as np
from collections import Mapping
import part

def divide(by):
    return np.int(sys.argv[1]) / by

print(__name__, __file__, sys.argv[1:], sys.path[0], isinstance({}, Mapping))
print(part.value(), divide(4))
"""

PART = """\
import pickle
import numpy as np

class Thing:
    pass

def value():
    return np.float(3), type(pickle.loads(pickle.dumps(Thing()))).__module__
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "part.py").write_text(PART)
    return tmp_path


def run(folder, *arguments, tool=True):
    """Runs the tool, or plain Python, in a folder."""
    command = ["-m", "tensorflow_ipu.cli", "run"] if tool else []
    return subprocess.run(
        [sys.executable, *command, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_program_runs_as_it_stands(folder):
    process = run(folder, "program.py", "10", "--quiet")
    path = folder / "program.py"
    assert process.returncode == 0
    assert process.stdout == (
        f"__main__ {path} ['10', '--quiet'] {folder} True\n(3.0, 'part') 2.5\n"
    )
    assert process.stderr == (
        "tensorflow-ipu run: 3 shims used\n"
        f"  {path}:3: collections.Mapping -> collections.abc.Mapping\n"
        f"  {folder / 'part.py'}:8: numpy.float -> builtins.float\n"
        f"  {path}:7: numpy.int -> builtins.int\n"
    )
    assert path.read_text() == PROGRAM


def test_quiet_says_nothing(folder):
    assert run(folder, "--quiet", "program.py", "10").stderr == ""


def test_a_module_runs(folder):
    process = run(folder, "-m", "program", "10")
    assert process.stdout.startswith(f"__main__ {folder / 'program.py'} ['10'] {folder} True\n")


def test_a_folder_and_a_package_run(folder):
    package = folder / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text("print(__package__, __spec__ and __spec__.name)\n")
    assert run(folder, "-m", "package").stdout == "package package.__main__\n"
    assert run(folder, "package").stdout == "None None\n"


@pytest.mark.parametrize(
    "program",
    [
        "1 / 0\n",
        "def f():\n    raise SystemExit('the end')\nf()\n",
        "import sys\nsys.exit(7)\n",
        "raise SystemExit\n",
        "import nothing_of_this_name\n",
        "def f(:\n",
        "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('b')\n",
        "import part_with_error\n",
        "import atexit\natexit.register(print, 'last')\nprint('first')\n",
        "import os\nos._exit(3)\n",
        "import collections\ncollections.NoSuchThing\n",
        "import json\njson.loads('x')\n",
    ],
)
def test_errors_and_exit_codes_are_those_of_python(tmp_path, program):
    (tmp_path / "program.py").write_text(program)
    (tmp_path / "part_with_error.py").write_text("def f():\n    return [][1]\nf()\n")
    plain, ours = (run(tmp_path, "program.py", tool=tool) for tool in (False, True))
    assert ours.returncode == plain.returncode
    assert ours.stdout == plain.stdout
    assert ours.stderr == plain.stderr


def test_ctrl_c_ends_program_as_it_ends_python(tmp_path):
    (tmp_path / "program.py").write_text("raise KeyboardInterrupt\n")
    plain, ours = (run(tmp_path, "program.py", tool=tool) for tool in (False, True))
    assert ours.returncode == plain.returncode == -signal.SIGINT
    assert ours.stderr == plain.stderr


def test_the_rest_of_the_process_is_as_ever(tmp_path):
    """Installed packages see existing names; unused shims are not noted."""
    (tmp_path / "program.py").write_text(
        "import json, threading, collections, asyncio\n"
        "print(hasattr(collections, 'Nothing'), json.loads('[1]', encoding='utf-8'))\n"
        "thread = threading.Thread(target=print)\n"
        "print(thread.isAlive())\n"
        "@asyncio.coroutine\n"
        "def f():\n"
        "    yield from asyncio.sleep(0, loop=None)\n"
        "    return 3\n"
        "print(asyncio.run(f()))\n"
    )
    process = run(tmp_path, "program.py")
    assert process.stdout == "False [1]\nFalse\n3\n"
    assert [line.split(": ", 1)[1] for line in process.stderr.splitlines()[1:]] == [
        "json.loads(encoding=) -> left out",
        "threading.Thread.isAlive -> threading.Thread.is_alive",
        "asyncio.coroutine -> tensorflow_ipu.compat.replacements.python.coroutine",
        "asyncio.sleep(loop=) -> left out",
    ]


def test_names_without_an_equal_say_what_to_do(tmp_path):
    (tmp_path / "program.py").write_text(
        "import tensorflow as tf\n"
        "for name in ('Session', 'contrib.slim', 'contrib.rnn.LSTMBlockCell', 'nothing'):\n"
        "    try:\n"
        "        eval(f'tf.{name}')\n"
        "    except AttributeError as error:\n"
        "        print(error)\n"
        "try:\n"
        "    from tensorflow.contrib.slim import conv2d\n"
        "except ImportError as error:\n"
        "    print(error)\n"
        "options = tf.data.Options()\n"
        "options.experimental_stats.aggregator = tf.data.experimental.StatsAggregator()\n"
        "dataset = tf.data.Dataset.range(3).with_options(options)\n"
        "print(options.experimental_stats, len(list(dataset)))\n"
    )
    process = run(tmp_path, "--tensorflow", "2", "program.py")
    lines = process.stdout.splitlines()
    assert lines[0].endswith(
        "it is a name of TensorFlow 1. If the program was written for that: tensorflow-ipu run "
        "--tensorflow 1 ..."
    )
    assert "tensorflow.contrib.slim is not in TensorFlow 2.15" in lines[1] and "tf_slim" in lines[1]
    assert "tensorflow.contrib.rnn.LSTMBlockCell is not in TensorFlow 2.15" in lines[2]
    assert lines[3] == "module 'tensorflow' has no attribute 'nothing'"
    assert "pip install tf_slim" in lines[4]
    assert lines[5] == "StatsOptions(aggregator=StatsAggregator()) 3"
    assert "tensorflow.data.Options.experimental_stats -> " in process.stderr


def test_install_is_for_programs_that_start_themselves(run_python):
    run_python(
        "import tensorflow_ipu.compat\n"
        "usage = tensorflow_ipu.compat.install()\n"
        "import numpy as np\n"
        "assert tensorflow_ipu.compat.install() is usage\n"
        "try:\n"
        "    tensorflow_ipu.compat.install(3)\n"
        "except ValueError as error:\n"
        "    assert 'Expected tensorflow to be 1 or 2. Received: 3' in str(error)\n"
    )
