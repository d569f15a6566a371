"""Tests of errors of a native library that is missing or damaged."""

from __future__ import annotations

import sysconfig
import types

import pytest
import tensorflow as tf

from tensorflow_ipu.import_hook.versions import built_for
from tensorflow_ipu.runtime import native

# Without what it remembers.
LOAD = native.load.__wrapped__


@pytest.fixture
def plugins(tmp_path, monkeypatch):
    """The folder of plugins of a made-up environment."""
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(built_for.site, "ENABLE_USER_SITE", False)
    folder = tmp_path / "tensorflow-plugins"
    folder.mkdir()
    return folder


def test_missing_library_is_an_error_with_its_folder(plugins):
    with pytest.raises(ImportError, match=f"is not in {plugins}.*tensorflow-ipu doctor"):
        LOAD()


def test_a_damaged_library_names_the_doctor(plugins):
    (plugins / built_for.LIBRARY).write_bytes(b"no library")
    with pytest.raises(ImportError, match=r"does not load into TensorFlow .*tensorflow-ipu doctor"):
        LOAD()


# --- Errors of ops without what the eager runtime puts around them ---

_PREFIX = (
    "{{function_node __wrapped__IpuLaunch_Targs_2_Tresults_1_device_/job:localhost/replica:0/"
    "task:0/device:IPU:0}} "
)


@pytest.mark.parametrize(
    "message, cleaned",
    [
        (f"{_PREFIX}It failed. [Op:IpuLaunch] name: cluster_0__step", "It failed."),
        (f"{_PREFIX}It failed.\n  here [Op:IpuLaunch]", "It failed.\n  here"),
        ("It failed.", "It failed."),
        ("{{function_node __wrapped__MatMul}} It failed. [Op:MatMul]",) * 2,
        ("Said [Op:IpuLaunch] in passing.",) * 2,
    ],
)
def test_prefixes_of_the_eager_runtime_are_removed(message: str, cleaned: str) -> None:
    assert native.cleaned(message) == cleaned


def test_errors_stay_what_they_are() -> None:
    payloads = {"a": b"b"}
    raised = tf.errors.NotFoundError(None, None, f"{_PREFIX}Gone. [Op:IpuLaunch]", payloads)

    def ipu_fail() -> None:
        raise raised

    module = types.SimpleNamespace(ipu_fail=ipu_fail, other=ipu_fail)
    native.clean_errors_of(module)
    assert module.other is ipu_fail
    with pytest.raises(tf.errors.NotFoundError, match=r"^Gone\.$") as caught:
        module.ipu_fail()
    assert caught.value is raised and caught.value.experimental_payloads == payloads


def test_errors_of_ops_on_the_host_are_cleaned() -> None:
    with pytest.raises(tf.errors.OpError) as caught:
        native.ops().ipu_host_embedding_deregister(T=tf.float32, shape=[1], embedding="none")
    assert "{{" not in str(caught.value) and "[Op:" not in str(caught.value)
