"""Tests of `tensorflow-ipu migrate` with pieces of programs."""

from __future__ import annotations

import ast

import pytest

from tensorflow_ipu.compat import generation, migration
from tensorflow_ipu.compat.rows import KERAS_2
from tensorflow_ipu.compat.tables.keras import SOURCES

# From TensorFlow 2.16 on `keras` is Keras 3.
IMPORT_KERAS = "import keras\n" if KERAS_2 == "keras" else f"import {KERAS_2} as keras\n"
TF1 = "import tensorflow.compat.v1 as tf\ntf.disable_v2_behavior()\n"
KEEP = "x = tf.Session()\n"

# What it is about, the program, and the program for today.
CASES = {
    "an alias of NumPy": (
        "import numpy as np\nx = np.zeros([2], np.float)  # np.int\n",
        "import numpy as np\nx = np.zeros([2], float)  # np.int\n",
    ),
    "an import of one name": (
        "from collections import Mapping\n",
        "from collections.abc import Mapping\n",
    ),
    "some names of an import": (
        "from collections import OrderedDict, Mapping as M, deque\n",
        "from collections import OrderedDict, deque\nfrom collections.abc import Mapping as M\n",
    ),
    "an import of several lines": (
        "from collections import (\n    Mapping,\n    OrderedDict,\n)\n",
        "from collections.abc import Mapping\nfrom collections import OrderedDict\n",
    ),
    "an import in a function": (
        "def f():\n    from collections import Mapping, deque\n    return Mapping\n",
        "def f():\n    from collections.abc import Mapping\n    from collections import deque\n"
        "    return Mapping\n",
    ),
    "statements in one line": (
        "import time; x = time.clock()\n",
        "import time; x = time.perf_counter()\n",
    ),
    "two imports in one line": (
        "from collections import Mapping, deque; x = Mapping\n",
        "from collections.abc import Mapping; from collections import deque; x = Mapping\n",
    ),
    "a name that needs an import": (
        "import inspect\n\nx = inspect.getargspec(f)\ny = inspect.getargspec(g)\n",
        "import inspect\n"
        "from tensorflow_ipu.compat.replacements import python as compat_python\n\n"
        "x = compat_python.getargspec(f)\ny = compat_python.getargspec(g)\n",
    ),
    "a name that is in use": (
        "import inspect\ncompat_python = 1\nx = inspect.getargspec(f)\n",
        "import inspect\n"
        "from tensorflow_ipu.compat.replacements import python as compat_python_\n"
        "compat_python = 1\nx = compat_python_.getargspec(f)\n",
    ),
    "a module that was imported": (
        "import math\nimport fractions\nx = fractions.gcd(4, 6)\n",
        "import math\nimport fractions\nx = math.gcd(4, 6)\n",
    ),
    "defaults of a dataclass": (
        "from dataclasses import dataclass\nfrom parts import Other\nfrom pathlib import Path\n\n"
        "@dataclass\nclass Part:\n    size: int = 1\n\n"
        "@dataclass(eq=True)\nclass Whole:\n    part: Part = Part()\n"
        "    large: Part = Part(size=2)\n    other: Other = Other()\n    path: Path = Path()\n",
        "from dataclasses import dataclass, field\nfrom parts import Other\n"
        "from pathlib import Path\n\n"
        "@dataclass\nclass Part:\n    size: int = 1\n\n"
        "@dataclass(eq=True)\nclass Whole:\n    part: Part = field(default_factory=Part)\n"
        "    large: Part = field(default_factory=lambda: Part(size=2))\n"
        "    other: Other = field(default_factory=Other)\n    path: Path = Path()\n",
    ),
    "defaults of a dataclass by module": (
        "import dataclasses\nfield = 1\n\n@dataclasses.dataclass\nclass Whole:\n"
        "    part: 'Part' = Part()\n",
        "import dataclasses\nfield = 1\n\n@dataclasses.dataclass\nclass Whole:\n"
        "    part: 'Part' = dataclasses.field(default_factory=Part)\n",
    ),
    "an argument": (
        "import json\nx = json.loads(s, encoding='utf-8')\n",
        "import json\nx = json.loads(s)\n",
    ),
    "a method": ("if thread.isAlive():\n    pass\n", "if thread.is_alive():\n    pass\n"),
    "letters beyond ASCII": (
        "import numpy as np\nx = ['ä', np.int]; y = 'ö', np.str\n",
        "import numpy as np\nx = ['ä', int]; y = 'ö', str\n",
    ),
    "TensorFlow 1": (f"import tensorflow as tf\n{KEEP}", f"{TF1}{KEEP}"),
    "TensorFlow 1 without a short name": (
        "import tensorflow\nx = tensorflow.Session()\n",
        "import tensorflow.compat.v1 as tensorflow\ntensorflow.disable_v2_behavior()\n"
        "x = tensorflow.Session()\n",
    ),
    "names of TensorFlow 1": (
        "from tensorflow import app, flags\n",
        "from tensorflow.compat.v1 import app, disable_v2_behavior, flags\ndisable_v2_behavior()\n",
    ),
    "modules of TensorFlow 1": (
        f"import tensorflow as tf\nfrom tensorflow.keras import layers\n{KEEP}",
        f"{TF1}from tensorflow.compat.v1.keras import layers\n{KEEP}",
    ),
    "the code of TensorFlow": (
        f"import tensorflow as tf\nfrom tensorflow.python import ipu\n{KEEP}",
        f"{TF1}from tensorflow.python import ipu\n{KEEP}",
    ),
    "contrib that stock TensorFlow has": (
        "import tensorflow as tf\nx = tf.contrib.rnn.LSTMCell(4)\n",
        f"{TF1}x = tf.nn.rnn_cell.LSTMCell(4)\n",
    ),
    "contrib": (
        "import tensorflow as tf\nx = tf.contrib.layers.flatten(y)\nz = tf.contrib.training\n",
        f"{TF1}from tensorflow_ipu.compat.contrib import layers as contrib_layers\n"
        "from tensorflow_ipu.compat.contrib import training as contrib_training\n"
        "x = contrib_layers.flatten(y)\nz = contrib_training\n",
    ),
    "a module of contrib": (
        "from tensorflow.contrib import rnn\nx = rnn.LSTMCell(4)\n",
        "from tensorflow_ipu.compat.contrib import rnn\nx = rnn.LSTMCell(4)\n",
    ),
    "names of contrib": (
        "from tensorflow.contrib.layers import flatten, l2_regularizer as l2\n",
        "from tensorflow_ipu.compat.contrib.layers import flatten, l2_regularizer as l2\n",
    ),
    "IPUs of the first releases": (
        "from tensorflow.contrib.ipu.python import ipu_compiler\n",
        "from tensorflow.python.ipu import ipu_compiler\n",
    ),
    "a dimension": (
        "import tensorflow as tf\nx = tf.placeholder(tf.float32, [n / 2, int(n/4)])\n",
        f"{TF1}x = tf.placeholder(tf.float32, [n // 2, int(n/4)])\n",
    ),
    "modules of Keras": (
        "from keras.layers.recurrent import GRU, LSTM\nimport keras.engine.base_layer as b\n",
        f"from {SOURCES}.layers.rnn.gru_v1 import GRU\n"
        f"from {SOURCES}.layers.rnn.lstm_v1 import LSTM\n"
        f"import {SOURCES}.engine.base_layer as b\n",
    ),
    "a module of Keras by its whole name": (
        "import keras.engine.base_layer\nx = keras.engine.base_layer.Layer\n",
        f"{IMPORT_KERAS}x = keras.src.engine.base_layer.Layer\n",
    ),
    "Keras 2": (
        "import keras\nimport keras.layers as l\nfrom keras import utils\nx = keras.Model\n",
        f"{IMPORT_KERAS}import {KERAS_2}.layers as l\nfrom {KERAS_2} import utils\n"
        "x = keras.Model\n",
    ),
    "the old copy of Keras": (
        "from tensorflow.python import keras\nfrom tensorflow.python.keras.layers import Dense\n",
        f"from {KERAS_2} import src as keras\nfrom {SOURCES}.layers import Dense\n",
    ),
    "an optimizer that is derived from": (
        "import tensorflow as tf\nclass A(tf.keras.optimizers.Adam):\n    pass\n"
        "x = tf.keras.optimizers.SGD(0.1)\n",
        "import tensorflow as tf\nclass A(tf.keras.optimizers.legacy.Adam):\n    pass\n"
        "x = tf.keras.optimizers.legacy.SGD(0.1)\n",
    ),
    "an argument of old optimizers": (
        "from tensorflow.keras.optimizers import Adam\nx = Adam(decay=0.1)\n",
        "from tensorflow.keras.optimizers.legacy import Adam\nx = Adam(decay=0.1)\n",
    ),
    "mixed precision": (
        "import tensorflow as tf\nmp = tf.keras.mixed_precision\n"
        "tf.keras.mixed_precision.experimental.set_policy('float32')\n",
        "import tensorflow as tf\nmp = tf.keras.mixed_precision\n"
        "tf.keras.mixed_precision.set_global_policy('float32')\n",
    ),
    "a module that may be missing": (
        "try:\n    import numpy as np\nexcept ImportError:\n    np = None\nx = np.int\n",
        "try:\n    import numpy as np\nexcept ImportError:\n    np = None\nx = int\n",
    ),
}

# Programs in which there is nothing to change.
UNCHANGED = {
    "an argument of the same name": "import numpy as np\ndef f(np):\n    return np.int\n",
    "a variable of the same name": "import numpy as np\nnp = other()\nx = np.int\n",
    "a loop over the same name": "import numpy as np\nx = [np.int for np in y]\n",
    "names of the program": (
        "from .numpy import int\nfrom . import collections\nx = collections.Set\n"
    ),
    "text": "x = 'import numpy as np; np.int'\n",
    "TensorFlow 2": "import tensorflow as tf\nx = tf.keras.optimizers.Adam(0.1)\n",
    "a program that has been migrated": f"{TF1}{KEEP}",
    "an optimizer of TensorFlow 2.15": (
        "from tensorflow.keras.optimizers import Adam\nx = Adam(0.1)\n"
    ),
}

# What it is about, the program, words of the advice.
BY_HAND = {
    "a part of contrib": ("import tensorflow as tf\nx = tf.contrib.slim.conv2d\n", "tf_slim"),
    "a module of contrib": ("from tensorflow.contrib import slim\n", "tf_slim"),
    "an unknown part": (
        "import tensorflow as tf\nx = tf.contrib.bayesflow.x\n",
        "look for a replacement",
    ),
    "an unknown module": ("import tensorflow.contrib.bayesflow as b\n", "look for a replacement"),
    "a comment in an import": (
        "from collections import (\n    Mapping,  # why\n)\n",
        "from collections.abc import Mapping",
    ),
    "a module of several": ("from keras.layers import recurrent\n", f"{SOURCES}.layers.rnn"),
    "a name of Keras that is no more": (
        "from keras.layers.recurrent import NoSuchThing\n",
        "has no NoSuchThing",
    ),
    "statistics": (
        "options.experimental_stats.aggregator = None\n",
        "leave out `.experimental_stats`",
    ),
    "the only argument": ("import json\nx = json.loads(encoding='a', s=s)\n", "leave the argument"),
}


def found(path, program):
    path.write_bytes(program.encode("utf-8"))
    file = migration.read(path)
    return file, migration.findings(file, migration.written_for([file]))


def migrated(path, program):
    """Returns the changed program, and the number of things to be changed by hand."""
    file, findings = found(path, program)
    left = sum(not finding.edits for finding in findings)
    return migration.rewritten(file, findings).decode("utf-8"), left


@pytest.mark.parametrize("name", CASES)
def test_old_code_becomes_the_expected_new_code(tmp_path, name):
    before, after = CASES[name]
    path = tmp_path / "program.py"
    assert migrated(path, before) == (after, 0)
    ast.parse(after)
    again, _ = migrated(path, after)
    assert again == after


@pytest.mark.parametrize("name", UNCHANGED)
def test_code_of_today_is_left_alone(tmp_path, name):
    assert found(tmp_path / "program.py", UNCHANGED[name])[1] == []


@pytest.mark.parametrize("name", BY_HAND)
def test_is_to_be_changed_by_hand(tmp_path, name):
    program, words = BY_HAND[name]
    file, findings = found(tmp_path / "program.py", program)
    left = [finding for finding in findings if not finding.edits]
    assert any(words in finding.text(file.path) for finding in left)
    assert all("(by hand)" in finding.text(file.path) for finding in left)


def test_line_ends_and_byte_order_marks_stay(tmp_path):
    before = "\ufeffimport numpy as np\r\nfrom collections import Set, deque\r\nx = np.int\r\n"
    after, _ = migrated(tmp_path / "program.py", before)
    assert after == (
        "\ufeffimport numpy as np\r\nfrom collections.abc import Set\r\n"
        "from collections import deque\r\nx = int\r\n"
    )


def test_a_program_is_for_one_tensorflow(tmp_path):
    """A file that uses no name of TensorFlow 1 itself belongs to a program that does."""
    (tmp_path / "main.py").write_text(f"import tensorflow as tf\n{KEEP}")
    (tmp_path / "other.py").write_text("import tensorflow as tf\nx = tf.reduce_sum(y)\n")
    files = [migration.read(tmp_path / name) for name in ("main.py", "other.py")]
    assert migration.written_for(files).tensorflow == 1
    assert migration.written_for(files[1:]).tensorflow == 2
    findings = migration.findings(files[1], migration.written_for(files))
    assert migration.rewritten(files[1], findings).startswith(TF1.encode())


@pytest.mark.parametrize(
    "program, words",
    [
        (b"print 'a'\n", "program.py:1: not Python 3: .* This is Python 2.*2to3"),
        (b"x = 0777\n", "program.py:1: not Python 3: .* This is Python 2"),
        (b"def f(:\n", "program.py:1: not Python 3: invalid syntax"),
        (b"x = '\xff'\n", "program.py.* not Python 3: .*"),
        (b"# coding: latin-1\nx = '\xff'\n", "program.py: not in UTF-8: convert it first"),
        (b"x\0", "program.py.*: not Python"),
    ],
)
def test_what_is_no_program_is_refused(tmp_path, program, words):
    path = tmp_path / "program.py"
    path.write_bytes(program)
    with pytest.raises(ValueError, match=words) as raised:
        migration.read(path)
    assert "\n" not in str(raised.value)


_VERSION_1 = "import tensorflow.compat.v1 as tf\n"


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (_VERSION_1 + "tf.Session()\n", (1, False)),
        ("from tensorflow.compat import v1 as tf\ntf.placeholder(tf.int32)\n", (1, False)),
        (_VERSION_1 + "tf.disable_v2_behavior()\ntf.Session()\n", (2, False)),
        (_VERSION_1 + "import tensorflow\ntf.Session()\n", (2, False)),
        (_VERSION_1 + "tf.app.run()\n", (2, False)),
        (
            "from keras.optimizers import SGD\nSGD(gradient_transformers=[])",
            (2, True),
        ),
        ("from keras.optimizer_v2 import optimizer_v2 as o\nf(o.OptimizerV2)\n", (2, True)),
    ],
)
def test_what_a_program_was_written_for(program, expected):
    assert generation.of_program([ast.parse(program)]) == expected


@pytest.mark.parametrize("before", [_VERSION_1, "from tensorflow.compat import v1 as tf\n"])
def test_version_1_is_turned_on_once(tmp_path, before):
    program = before + "session = tf.Session()\n"
    after = before + "tf.disable_v2_behavior()\nsession = tf.Session()\n"
    path = tmp_path / "program.py"
    assert migrated(path, program) == (after, 0)
    assert migrated(path, after) == (after, 0)
