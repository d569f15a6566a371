"""Tests of the checks of environment variables."""

from __future__ import annotations

import shlex

import pytest

from tensorflow_ipu.cli.diagnosis import variables
from tensorflow_ipu.cli.diagnosis.checks import Level
from tensorflow_ipu.configs import flags


@pytest.mark.parametrize(
    "environment, name, words, mend",
    [
        (
            {"TF_POPLAR_FLAGS": "--use_ipu_modle --log_cycle_count=0"},
            "TF_POPLAR_FLAGS",
            "--use_ipu_model",
            "export TF_POPLAR_FLAGS='--use_ipu_model --log_cycle_count=0'",
        ),
        (
            {"TF_POPLAR_FLAGS": "--max_infeed_threads=many --use_ipu_model"},
            "TF_POPLAR_FLAGS",
            "many",
            "export TF_POPLAR_FLAGS=--use_ipu_model",
        ),
        ({"TF_POPLAR_FLAGS": "--xyz"}, "TF_POPLAR_FLAGS", "--xyz", "unset TF_POPLAR_FLAGS"),
        ({"TF_POPLAR_FLAGS": "'"}, "TF_POPLAR_FLAGS", "words", "unset TF_POPLAR_FLAGS"),
        (
            {"TENSORFLOW_IPU_CHIP": "bwo"},
            "TENSORFLOW_IPU_CHIP",
            "mk1",
            "export TENSORFLOW_IPU_CHIP=bow",
        ),
        ({"TENSORFLOW_IPU_CHIP": "?"}, "TENSORFLOW_IPU_CHIP", "mk1", "unset TENSORFLOW_IPU_CHIP"),
        (
            {"POPLAR_ENGINE_OPTIONS": "{debug: 1}"},
            "POPLAR_ENGINE_OPTIONS",
            "JSON",
            "unset POPLAR_ENGINE_OPTIONS",
        ),
    ],
    ids=range(7),
)
def test_a_wrong_value_is_a_problem(monkeypatch, environment, name, words, mend):
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    (finding,) = variables.check(environment)
    assert (finding.subject, finding.level, finding.mend) == (name, Level.PROBLEM, mend)
    assert words in finding.text
    if mend.startswith("export TF_POPLAR_FLAGS="):
        flags.parse(shlex.split(mend)[1].partition("=")[2])


@pytest.mark.parametrize(
    "name, meant",
    [
        ("TF_POPLAR_FLAG", "TF_POPLAR_FLAGS"),
        ("POPLAR_ENGINE_OPTION", "POPLAR_ENGINE_OPTIONS"),
        ("TENSORFLOW_IPU_CHIPS", "TENSORFLOW_IPU_CHIP"),
    ],
)
def test_a_name_that_nothing_reads_is_a_warning(name, meant):
    (finding,) = variables.check({name: "a b"})
    assert (finding.subject, finding.level) == (name, Level.WARNING)
    assert finding.mend == f"export {meant}='a b'; unset {name}"


def test_names_of_others_are_no_finding():
    names = ("PATH", "POPLAR_SDK_ENABLED", "POPDIST_NUM_INSTANCES", "TENSORFLOW_IPU_PLAN")
    assert variables.check(dict.fromkeys(names, "1")) == []


def test_what_is_right_is_shown():
    found = variables.check({"TF_POPLAR_FLAGS": "--use_ipu_model", "TENSORFLOW_IPU_CHIP": "bow"})
    assert [finding.level for finding in found] == [Level.OK, Level.OK]


def test_flag_without_effect_warns():
    text = "--save_vertex_graph=/tmp/graphs --use_ipu_model"
    _, finding = variables.check({"TF_POPLAR_FLAGS": text})
    assert finding.level is Level.WARNING and "--save_vertex_graph is ignored" in finding.text
    assert finding.mend == "export TF_POPLAR_FLAGS=--use_ipu_model"


@pytest.mark.parametrize(
    "text, folder", [("--executable_cache_path=/a/b", "/a/b"), ("", ""), ("--wrong", None)]
)
def test_folder_of_cache_equals_that_of_flags(text, folder):
    assert variables.cache_folder({"TF_POPLAR_FLAGS": text}) == folder
