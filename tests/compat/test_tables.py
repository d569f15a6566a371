"""Every row of the tables leads somewhere, and is about something that is not there any more."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tensorflow_ipu.compat import finder, tables
from tensorflow_ipu.compat.rows import KERAS_2, canonical, is_below
from tensorflow_ipu.compat.tables import tensorflow1_names
from tensorflow_ipu.compat.tables.keras import COPY
from tests.support.checkout.versions import needs_tensorflow

ROOT = Path(__file__).parents[2]


def there(name):
    """Whether stock Python, NumPy and TensorFlow have a name."""
    try:
        finder.resolve(name)
    except (AttributeError, ImportError):
        return False
    return True


@pytest.mark.filterwarnings("ignore:In the future `np:FutureWarning")
def test_names_lead_to_what_takes_their_place():
    lost = [row.old for row in tables.NAMES.values() if not there(row.new)]
    assert not lost


@pytest.mark.filterwarnings("ignore:In the future `np:FutureWarning")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has some of them until 3.10")
def test_names_are_not_there_any_more():
    stale = [row.old for row in tables.NAMES.values() if there(row.old)]
    assert not stale


def test_modules_lead_to_what_takes_their_place():
    for row in tables.MODULES.values():
        for module in row.new:
            assert importlib.import_module(module).__name__


def test_modules_are_not_there_any_more():
    stale = [
        row.old for row in tables.MODULES.values() if not is_below(row.old, COPY) and there(row.old)
    ]
    assert not stale


def test_nothing_takes_the_place_of_what_is_gone():
    assert not [row.old for row in tables.GONE.values() if there(row.old)]
    assert all(row.advice.endswith(".") for row in tables.GONE.values())


def test_the_longest_row_is_found():
    assert tables.find("numpy.int").row.new == "builtins.int"
    found = tables.find("keras.optimizer_v2.adam.Adam.get_config")
    assert found.row.old == "tensorflow.keras.optimizer_v2" and found.rest == 3
    assert found.tail("keras.optimizer_v2.adam.Adam.get_config") == ".adam.Adam.get_config"
    assert tables.find("tensorflow.contrib.slim.conv2d").row.advice
    assert tables.find("numpy.int64") is None and tables.find("tensorflow.nn.relu") is None


def test_a_module_has_one_name_in_the_tables():
    assert canonical("keras.engine") == canonical("tensorflow.keras.engine")
    assert canonical("tensorflow.compat.v1.contrib") == canonical("tensorflow.contrib")
    assert canonical("keras.src.engine") == canonical(f"{KERAS_2}.src.engine")
    assert canonical("tf_keras.engine") == canonical("keras.engine")
    assert canonical("keras_tuner") == "keras_tuner"


@needs_tensorflow("<2.16", "the catalogue is that of TensorFlow 2.15")
def test_tensorflow_1_catalogue_equals_installed_one(run_python):
    """In a process of its own: modules of TensorFlow also show modules that others imported."""
    path = ROOT / "docs/make_tensorflow1_names.py"
    code = "import runpy; module = runpy.run_path({!r}); print(module['render'](), end='')"
    rendered = run_python(code.format(str(path))).stdout
    written = Path(tensorflow1_names.__file__).read_text(encoding="utf-8")
    assert written == rendered, f"run python {path}"
    assert {"tensorflow.Session", "tensorflow.train.AdamOptimizer"} < tensorflow1_names.NAMES
    assert "tensorflow.Variable" not in tensorflow1_names.NAMES


def test_contrib_has_table_names_without_shims():
    from tensorflow_ipu.compat import contrib

    for row in tables.contrib_names.NAMES:
        value = contrib
        for part in row.old.split(".")[2:]:
            assert part in dir(value)
            value = getattr(value, part)
        assert value is finder.resolve(row.new)


@pytest.mark.parametrize(
    "name, words",
    [
        ("slim", "pip install tf_slim"),
        ("rnn.LSTMBlockCell", "nothing that takes its place. docs/migration.md"),
    ],
)
def test_contrib_says_what_it_has_not(name, words):
    with pytest.raises(AttributeError, match=f"tensorflow.contrib.{name} is not in .*{words}"):
        finder.resolve(f"tensorflow_ipu.compat.contrib.{name}")


def test_looking_into_programs_imports_no_tensorflow(run_python):
    run_python(
        "import sys\n"
        "import tensorflow_ipu.cli.main\n"
        "import tensorflow_ipu.compat.migration, tensorflow_ipu.compat.shims\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)\n"
    )
