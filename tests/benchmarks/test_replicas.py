"""Figures of replicas, from measurements that are given."""

from __future__ import annotations

import argparse

import pytest
import replicas

OPTIONS = argparse.Namespace(rounds=3, executions=1, limit=0.01, jax_python="")


@pytest.fixture
def printed(monkeypatch, capsys):
    """Prints the figures of the dense model; 64 replicas do not fit."""
    measured = {1: (1e9, 1.0, 0.1), 16: (2e9, 6.0, 0.8), 64: None}
    asked = []

    def in_child(name, count, options):
        asked.append(count)
        found = measured[count]
        return found and replicas.Measured(*found)

    monkeypatch.setattr(replicas, "in_child", in_child)
    replicas.print_scaling("dense", (16, 64), OPTIONS)
    assert asked == [1, 16, 64, 1, 16, 1, 16]
    return capsys.readouterr().out.splitlines()


def test_ratios_are_by_one_replica(printed):
    assert printed[0].startswith("memory of dense, 16 replicas / 1: 2.00 (wanted: <= 1.6; ")
    assert printed[1].startswith("time of dense, a step of 16 replicas / 16 steps of 1: 0.50 ")
    assert printed[2].startswith("first execution of dense, 16 replicas / 1: 4.67 (wanted: <= 2; ")


def test_missing_measurements_are_named(printed):
    assert printed[3] == (
        "memory of dense, 64 replicas / 1: does not fit (64: too large, 1: 1.00 GB)"
    )
    assert "does not fit (wanted: <= 1.15; 64: too large" in printed[-1]


def test_processes_above_the_limit_end():
    assert replicas.in_child("scan_ipu", 1, OPTIONS) is None
