"""Tests of writing data and variables to files and reading them back."""

from __future__ import annotations

import contextlib
import io
import json
import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.feeds import data_files, dataset_extractor
from tensorflow_ipu.feeds.dataset_extractor import TensorKind
from tensorflow_ipu.feeds.ipu_infeed_queue import feed_of
from tensorflow_ipu.ipu_infeed_queue import IPUInfeedQueue

tf1 = tf.compat.v1


def pairs() -> tf.data.Dataset:
    """Ten elements with a matrix and a number."""
    return tf.data.Dataset.range(10).map(
        lambda x: {"a": tf.fill([2, 3], tf.cast(x, tf.float32)), "b": x * x}
    )


# Datasets.


def test_each_member_goes_to_its_own_file(tmp_path: Path) -> None:
    data_files.export_dataset_to_file(pairs(), str(tmp_path / "my.bin"), 4, feed_name="train")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.0.bin", "my.1.bin"]
    matrices = dataset_extractor.read_tensor(tmp_path / "my.0.bin", "train.0")
    squares = dataset_extractor.read_tensor(tmp_path / "my.1.bin", "train.1")
    np.testing.assert_array_equal(matrices[:, 1, 2], [0, 1, 2, 3])
    np.testing.assert_array_equal(squares, [0, 1, 4, 9])
    (info,) = dataset_extractor.read_index(tmp_path / "my.0.bin")
    assert info == dataset_extractor.TensorInfo("train.0", TensorKind.INFEED, "float32", (4, 2, 3))


def test_a_single_tensor_goes_to_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "my.bin"
    data_files.export_dataset_to_file(tf.data.Dataset.range(5), path, 5)
    np.testing.assert_array_equal(dataset_extractor.read_tensor(path, "infeed.0"), range(5))


def test_queue_names_its_streams_and_keeps_its_elements(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf1.Session() as session:
        queue = IPUInfeedQueue(pairs())
        export = data_files.export_dataset_to_file(queue, tmp_path / "q", 2)
        assert isinstance(export, tf.Operation)
        for _ in range(2):
            session.run(export)
            squares = dataset_extractor.read_tensor(tmp_path / "q.1", f"{feed_of(queue).id}.1")
            np.testing.assert_array_equal(squares, [0, 1])


def test_the_extractor_writes_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "all"
    dataset_extractor.dataset_extractor(pairs(), 3, path, "feed")
    assert [info.name for info in dataset_extractor.read_index(path)] == ["feed.0", "feed.1"]
    assert "Wrote 2 tensors" in capsys.readouterr().out


def test_too_few_elements_are_refused(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.OutOfRangeError, match="reached the end of the dataset"):
        data_files.export_dataset_to_file(pairs(), tmp_path / "x", 11)
    assert list(tmp_path.iterdir()) == []


def test_export_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="num_elements"):
        data_files.export_dataset_to_file(pairs(), tmp_path / "x", 0)
    with pytest.raises(TypeError, match=r"tf\.data\.Dataset"):
        dataset_extractor.dataset_extractor([1], 1, tmp_path / "x", "")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not fully defined"):
        data_files.export_dataset_to_file(pairs().batch(4), tmp_path / "x", 1)


# Variables.


def make_variables(offset: float) -> list[tf.Variable]:
    """Variables of several types."""
    return [
        tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3) + offset, name="scope/w"),
        tf.Variable(np.float16(offset), name="h"),
        tf.Variable(tf.constant([offset, 2], tf.bfloat16), name="b"),
        tf.Variable(np.int64(offset), name="step"),
        tf.Variable(offset > 0, name="flag"),
    ]


def values(variables: list[tf.Variable]) -> list[Any]:
    """The values of variables as lists."""
    return [variable.numpy().tolist() for variable in variables]


@pytest.mark.parametrize("is_input", [True, False])
def test_variables_make_a_round_trip(tmp_path: Path, is_input: bool) -> None:
    path = tmp_path / "variables"
    source, target = make_variables(1.5), make_variables(-3.0)
    dataset_extractor.export_variables(source, path, is_input)
    kinds = {info.kind for info in dataset_extractor.read_index(path)}
    assert kinds == {TensorKind.INPUT if is_input else TensorKind.PARAMETER}
    dataset_extractor.import_variables(target, path, is_input)
    assert values(target) == values(source)


def test_variables_are_imported_from_several_files(tmp_path: Path) -> None:
    source, target = make_variables(1.5), make_variables(-3.0)
    dataset_extractor.export_variables(source[:2], tmp_path / "1")
    dataset_extractor.export_variables(source[2:], tmp_path / "2")
    dataset_extractor.import_variables(target, [tmp_path / "1", tmp_path / "2"])
    assert values(target) == values(source)


def test_strict_import_wants_exactly_the_variables(tmp_path: Path) -> None:
    path = tmp_path / "variables"
    source, target = make_variables(1.5), make_variables(-3.0)
    dataset_extractor.export_variables(source, path)
    with pytest.raises(ValueError, match="do not match") as caught:
        dataset_extractor.import_variables(target[1:], path)
    assert "scope/w: float32[2, 3]" in str(caught.value)
    dataset_extractor.import_variables(target[1:], path, strict=False)
    assert values(target) == values([target[0], *source[1:]])
    other = [tf.Variable([0.0], name="scope/w")]
    with pytest.raises(ValueError, match="do not match"):
        dataset_extractor.import_variables(other, path, strict=False)
    with pytest.raises(ValueError, match="do not match"):
        dataset_extractor.import_variables(target, path, is_input=False)


def test_metadata_is_checked(tmp_path: Path) -> None:
    variables = make_variables(1.0)[:2]
    entries = [
        {"name": "h", "dtype": "float16", "shape": []},
        {"name": "scope/w", "dtype": "float32", "shape": [2, 3]},
    ]
    metadata = tmp_path / "metadata.json"
    metadata.write_text(json.dumps({"inputs": entries, "parameters": []}))
    dataset_extractor.export_variables(variables, tmp_path / "x", metadata=metadata)
    with pytest.raises(ValueError, match="do not match the metadata"):
        dataset_extractor.export_variables(variables, tmp_path / "x", False, metadata=metadata)
    entries[0]["dtype"] = "float32"
    metadata.write_text(json.dumps({"inputs": entries}))
    with pytest.raises(ValueError, match="do not match the metadata"):
        dataset_extractor.export_variables(variables, tmp_path / "x", metadata=metadata)


def test_names_must_differ(tmp_path: Path) -> None:
    variables = [tf.Variable(1.0, name="v"), tf.Variable(2.0, name="v")]
    with pytest.raises(ValueError, match=r"\['v'\]"):
        dataset_extractor.export_variables(variables, tmp_path / "x")


def test_a_session_makes_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "session"
    with tf.Graph().as_default():
        a = tf1.get_variable("a", initializer=[1.0, 2.0], use_resource=True)
        b = tf1.get_variable("scope/b", initializer=3, use_resource=False)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run([a.assign([5.0, 6.0]), b.assign(7)])
            data_files.export_variables_from_live_session(session, path)
            session.run(tf1.global_variables_initializer())
            data_files.import_data_in_live_session(session, path)
            np.testing.assert_array_equal(session.run(a), [5, 6])
            assert session.run(b) == 7


def test_a_model_makes_a_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "model"

    def make() -> tf.keras.Model:
        tf.keras.backend.clear_session()
        return tf.keras.Sequential(
            [tf.keras.layers.Dense(3, input_shape=(2,)), tf.keras.layers.BatchNormalization()]
        )

    source, target = make(), make()
    data_files.export_variables_from_live_model(source, path)
    data_files.import_data_in_live_model(target, [path])
    inputs = np.ones([1, 2], np.float32)
    np.testing.assert_array_equal(source(inputs), target(inputs))


def test_inputs_are_exported_with_their_fed_values(tmp_path: Path) -> None:
    path = tmp_path / "inputs"
    with tf.Graph().as_default():
        x = tf1.placeholder(tf.float32, [2], name="x")
        v = tf1.get_variable("v", initializer=4, use_resource=True)
        with pytest.raises(ValueError, match="session"):
            data_files.export_inputs_to_file([v], path, {})
        with tf1.Session() as session:
            session.run(v.initializer)
            data_files.export_inputs_to_file([x, v], path, {x: [1, 2]})
        with pytest.raises(ValueError, match="no value for x:0"):
            data_files.export_inputs_to_file([x], tmp_path / "y", {})
    infos = dataset_extractor.read_index(path)
    assert [(info.name, info.kind) for info in infos] == [
        ("x", TensorKind.INPUT),
        ("v", TensorKind.INPUT),
    ]
    value = dataset_extractor.read_tensor(path, "x")
    np.testing.assert_array_equal(value, [1, 2])
    assert value.dtype == np.float32


# Files.


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_text("text")
    with pytest.raises(ValueError, match="is not a file of tensors"):
        dataset_extractor.read_index(path)
    np.savez(tmp_path / "other.npz", x=1)
    with pytest.raises(ValueError, match="is not a file of tensors"):
        dataset_extractor.read_index(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError):
        dataset_extractor.read_index(tmp_path / "none")


def _rewrite(path: Path, member: str, content: bytes) -> None:
    """Replaces a member of a file of tensors."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, kept in {**members, member: content}.items():
            archive.writestr(name, kept)


_ENTRY = '{"name": "a", "kind": "input", "dtype": "%s", "shape": %s, "member": "%s"}'
_HEAD = '{"format": "tensorflow_ipu tensors", "version": 1, "tensors": %s}'


@pytest.mark.parametrize(
    "index",
    [
        "[]",
        "{}",
        "[" * 100_000,
        _HEAD % "3",
        _HEAD % "[3]",
        _HEAD % "[{}]",
        _HEAD % ("[" + _ENTRY % ("float99", [3], "0.npy") + "]"),
        _HEAD % ("[" + _ENTRY % ("float32", [-3], "0.npy") + "]"),
        _HEAD % ("[" + _ENTRY % ("float32", [[3]], "0.npy") + "]"),
        _HEAD % ("[" + _ENTRY % ("float32", [4], "0.npy") + "]"),
        _HEAD % ("[" + _ENTRY % ("float32", [3], "9.npy") + "]"),
    ],
)
def test_a_damaged_index_is_refused(tmp_path: Path, index: str) -> None:
    path = tmp_path / "x"
    dataset_extractor.write(path, [("a", TensorKind.INPUT, np.zeros(3, np.float32))])
    _rewrite(path, "index.json", index.encode())
    with pytest.raises(ValueError, match="x is not a file of tensors"):
        dataset_extractor.read_tensor(path, "a")


def test_objects_in_a_file_are_not_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "x"
    dataset_extractor.write(path, [("a", TensorKind.INPUT, np.zeros(3, np.float32))])
    pickled = io.BytesIO()
    np.save(pickled, np.array([print], object), allow_pickle=True)
    _rewrite(path, "0.npy", pickled.getvalue())
    with pytest.raises(ValueError, match="allow_pickle=False"):
        dataset_extractor.read_tensor(path, "a")


def test_any_damage_of_file_is_found_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "x"
    dataset_extractor.write(path, [("a", TensorKind.INPUT, np.arange(20, dtype=np.float32))])
    whole = path.read_bytes()
    draw = random.Random(2)
    for case in range(300):
        content = bytearray(whole[: draw.randrange(len(whole))] if case % 3 == 0 else whole)
        for _ in range(case % 3):
            content[draw.randrange(len(content))] = draw.randrange(256)
        path.write_bytes(content)
        with contextlib.suppress(ValueError):
            value = dataset_extractor.read_tensor(path, "a")
            assert value.tolist() == list(range(20))


def test_unwritable_file_is_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "x"
    dataset_extractor.write(path, [("a", TensorKind.INPUT, np.ones(3))])
    with pytest.raises(ValueError, match="two tensors"):
        dataset_extractor.write(path, [("a", TensorKind.INPUT, np.zeros(1))] * 2)
    assert dataset_extractor.read_tensor(path, "a").tolist() == [1, 1, 1]
    assert [file.name for file in tmp_path.iterdir()] == ["x"]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ["", "[]", '{"inputs": 3}', '{"inputs": [{"name": 3}]}', "[" * 99_999]
)
def test_metadata_that_lists_no_tensors(tmp_path: Path, text: str) -> None:
    (tmp_path / "metadata").write_text(text)
    variable = tf.Variable(1.0, name="v")
    with pytest.raises(ValueError, match="metadata must be JSON such as"):
        dataset_extractor.export_variables(
            [variable], tmp_path / "x", metadata=tmp_path / "metadata"
        )


def test_missing_tensors_and_text_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "x"
    dataset_extractor.write(path, [("a", TensorKind.INPUT, np.zeros(3))])
    with pytest.raises(ValueError, match="no tensor 'b'"):
        dataset_extractor.read_tensor(path, "b")
    with pytest.raises(ValueError, match="holds text"):
        dataset_extractor.write(path, [("a", TensorKind.INPUT, np.array(["text"], object))])
    with pytest.raises(ValueError, match="two tensors"):
        dataset_extractor.write(path, [("a", TensorKind.INPUT, np.zeros(1))] * 2)
