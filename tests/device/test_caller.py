"""Tests of the line of the user's program that configured the system."""

from __future__ import annotations

import inspect

from tensorflow_ipu.api import config, utils
from tensorflow_ipu.device import caller, system


def _here(offset=0):
    frame = inspect.currentframe().f_back
    return f"{__file__}:{frame.f_lineno + offset}"


def test_the_line_is_that_of_the_caller():
    assert caller.line() == _here()


def test_a_configuration_knows_where_it_was_made():
    cfg = config.IPUConfig()
    cfg.auto_select_ipus = 2
    cfg.configure_ipu_system()
    assert system.current().configured_at == _here(-1)
    system.reset_ipu_configuration()
    assert system.current().configured_at == ""


def test_the_older_functions_know_it_too():
    options = utils.auto_select_ipus(utils.create_ipu_config(), 1)
    utils.configure_ipu_system(options)
    assert system.current().configured_at == _here(-1)


def test_a_function_without_a_file_has_no_line():
    found = []
    exec("found.append(line())", {"found": found, "line": caller.line})
    assert found == [""]
