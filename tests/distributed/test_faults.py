"""Tests of instances that fail, end, hang or do not come, with real processes and signals."""

from __future__ import annotations

import signal
import socket

import numpy as np
import pytest
import tensorflow as tf

from tensorflow_ipu.distributed import joining
from tensorflow_ipu.distributed.instances import Instances
from tensorflow_ipu.distributed.launcher import environment, main
from tests.support.processes import fault_programs, instances

PROGRAM = ["-m", "tests.support.processes.fault_programs"]
# Within this many seconds all others report a fault.
REPORTED = 10
EXIT_CODE = 7


@pytest.fixture(scope="module")
def outcomes():
    env = {environment.COLLECTIVE_TIMEOUT: str(fault_programs.LIMIT)}
    with instances.started([*PROGRAM, "faults"], count=3, env=env) as running:
        for index in (0, 2):
            while running[index].next_report()["name"] != "late":
                pass
        running[1].send(signal.SIGUSR1)
        ended = {index: running[index].wait() for index in (0, 2)}
        running[1].send(signal.SIGCONT)
        ended[1] = running[1].wait()
    assert {index: outcome.code for index, outcome in ended.items()} == dict.fromkeys(
        range(3), EXIT_CODE
    ), "\n".join(outcome.text for outcome in ended.values())
    return ended


def _reports(outcomes, name):
    """Returns the report of each instance of a program."""
    return [
        next(report for report in outcomes[index].reports if report["name"] == name)
        for index in range(3)
    ]


def _check_others(outcomes, name, kind, *texts):
    """Checks the reports of the instances without the fault."""
    for index in (0, 2):
        report = _reports(outcomes, name)[index]
        assert report.get("error") == kind, report
        for text in texts:
            assert text in report["message"]
        assert report["seconds"] < REPORTED, report


@pytest.mark.parametrize("name", ["error", "error before the first collective"])
def test_error_of_one_instance_is_error_of_all(outcomes, name):
    _check_others(
        outcomes,
        name,
        "InvalidArgumentError",
        "Instance 1 (localhost:",
        "of the program has failed",
        "ValueError: the data are broken",
    )
    own = _reports(outcomes, name)[1]
    assert "ValueError: the data are broken" in own["message"]
    assert "Instance 1" not in own["message"]


def test_programs_run_again_after_errors(outcomes):
    for name in ("good", "good again", "good at last"):
        assert [report.get("result") for report in _reports(outcomes, name)] == [9.0] * 3


def test_data_ending_in_one_instance_fail_others(outcomes):
    assert _reports(outcomes, "short")[1]["error"] == "OutOfRangeError"
    _check_others(outcomes, "short", "FailedPreconditionError", "Instance 1 (", "out of range")


def test_ctrl_c_in_one_instance_ends_launch_of(outcomes):
    assert _reports(outcomes, "interrupt")[1]["error"] == "KeyboardInterrupt"
    _check_others(outcomes, "interrupt", "FailedPreconditionError", "Instance 1 (", "has failed")


def test_another_program_is_refused_before_its_first_collective(outcomes):
    for report in _reports(outcomes, "other program"):
        assert report["error"] == "FailedPreconditionError", report
        assert "The instances do not run the same program" in report["message"]
        assert "instance 1 (localhost:" in report["message"]
        assert "but in programs that differ elsewhere" in report["message"]


def test_absent_instance_is_announced_then_error(outcomes):
    _check_others(
        outcomes,
        "late",
        "DeadlineExceededError",
        "seconds for instance 1 (localhost:",
        "IpuCrossReplicaSum",
        environment.COLLECTIVE_TIMEOUT,
    )
    assert _reports(outcomes, "late")[1]["error"] == "DeadlineExceededError"
    for index in (0, 2):
        said = [
            line
            for line in outcomes[index].errors.splitlines()
            if line.startswith(f"tensorflow_ipu: Instance {index} (") and "has waited 4 s" in line
        ]
        # A small sum is made in instance 0, so the others wait for that.
        missed = "for instance 1 (" if index == 0 else "for instance 0 ("
        assert any(missed in line and "cross_replica_sum" in line for line in said)
        assert not any("{{" in line for line in said)


def test_stopped_instance_is_reported(outcomes):
    _check_others(outcomes, "stopped", "DeadlineExceededError", "Instance 1 (", "does not answer")


def test_restart_after_a_kill_comes_to_same_bits(tmp_path):
    killed, steps = fault_programs.KILLED, fault_programs.STEPS
    with instances.started([*PROGRAM, "train", str(tmp_path), str(killed)], count=2) as running:
        dead, other = running[1].wait(), running[0].wait()
    assert dead.code == -signal.SIGKILL
    assert other.code == 1
    assert "FailedPreconditionError: Instance 1 (localhost:" in other.errors
    assert "has ended" in other.errors
    assert not list(tmp_path.rglob("*tempstate*"))
    again = instances.run([*PROGRAM, "train", str(tmp_path), "0"], count=2)
    for outcome in again:
        resumed, straight = outcome.reports
        assert resumed["first"] == fault_programs.SAVED < killed < steps
        np.testing.assert_array_equal(resumed["weights"], straight["straight"])


def _addresses(count):
    with socket.socket() as taken:
        taken.bind(("", 0))
        port = taken.getsockname()[1]
    return [f"localhost:{port + number}" for number in range(count)]


def _joining(index, addresses, replicas, seconds):
    """Returns arguments of `started` for one process, which reports how it joins."""
    told = environment.InstanceEnvironment(len(addresses), index, replicas, 1, tuple(addresses))
    return {"words": [*PROGRAM, "late", str(seconds)], "count": 1, "env": told.variables()}


@pytest.mark.parametrize(
    "addresses, index, message",
    [
        (("localhost:5000",), 0, "Each of 2 instances needs an address"),
        (("localhost:5000", "localhost:5001"), 2, "Each of 2 instances needs an address"),
        (("localhost:5000", "localhost"), 0, "must be host:port.* Received: 'localhost'"),
        (("localhost:5000", "localhost:65536"), 0, "port from 1 to 65535"),
        (("localhost:5000", "localhost:5000"), 0, "with localhost:5000 more than once"),
    ],
)
def test_wrong_addresses_are_refused(addresses, index, message):
    with pytest.raises(ValueError, match=message):
        joining.join(Instances(count=2, index=index, addresses=addresses))


def test_joining_comes_before_the_first_operation():
    tf.constant(1.0)
    with pytest.raises(RuntimeError, match=r"Call popdist\.init\(\), or make the strategy, before"):
        joining.join(Instances(count=2, addresses=("localhost:5000", "localhost:5001")))


@pytest.mark.parametrize("text", ["", "soon", "0", "-1", "inf", "nan"])
def test_time_limit_is_a_positive_number(text):
    with pytest.raises(ValueError, match="POPDIST_COLLECTIVE_TIMEOUT must be a positive number"):
        environment.collective_timeout({environment.COLLECTIVE_TIMEOUT: text})


def test_instances_that_are_missing_are_named():
    addresses = [*_addresses(2), "no-such-host.invalid:5000"]
    with instances.started(**_joining(0, addresses, 3, 1)) as [process]:
        first, second = process.next_report(), process.next_report()
    assert first["error"] == "DeadlineExceededError"
    assert "Instance 0 has waited 1 seconds for the other instances of 3" in first["message"]
    assert f"instance 1 ({addresses[1]}: " in first["message"]
    assert f"instance 2 ({addresses[2]}: " in first["message"]
    assert (second["error"], "and failed. Start all" in second["message"]) == ("RuntimeError", True)


def test_late_or_doubled_instance_is_refused():
    addresses = _addresses(2)
    with (
        instances.started(**_joining(0, addresses, 2, 1)) as [process],
        instances.started(**_joining(0, addresses, 2, 1)) as [twice],
    ):
        reports = [process.next_report(), twice.next_report()]
        taken, waited = sorted(reports, key=lambda report: report["error"] != "RuntimeError")
        assert f"The server of instance 0 cannot be started on {addresses[0]}" in taken["message"]
        assert "was started as instance 0" in taken["message"]
        assert waited["error"] == "DeadlineExceededError"
        with instances.started(**_joining(1, addresses, 2, 2)) as [late]:
            report = late.next_report()
    assert report["error"] == "DeadlineExceededError"
    assert "some have not joined in time" in report["message"]


def test_instances_with_other_numbers_of_replicas_are_refused():
    addresses = _addresses(2)
    with (
        instances.started(**_joining(0, addresses, 2, 60)) as [one],
        instances.started(**_joining(1, addresses, 4, 60)) as [two],
    ):
        reports = [one.next_report(), two.next_report()]
    for report in reports:
        assert report["error"] == "FailedPreconditionError"
        assert (
            "The instances do not run the same program: the number of replicas is"
            in (report["message"])
        )
        assert addresses[0] in report["message"] and addresses[1] in report["message"]


def test_unknown_host_fails_before_others_give_up(run_python):
    (port,) = (address.rpartition(":")[2] for address in main.host_addresses(["localhost"], 1))
    run_python(
        "import tensorflow as tf\n"
        "from tensorflow_ipu.distributed import instances, joining\n"
        "joining.UNKNOWN_HOST_TIMEOUT = 0.0\n"
        f"addresses = ('no-such-host.invalid:1', 'localhost:{port}')\n"
        "try:\n"
        "    joining.join(instances.Instances(2, 1, addresses=addresses))\n"
        "except tf.errors.DeadlineExceededError as error:\n"
        "    assert 'did not reach instance 0 (no-such-host.invalid:1' in error.message, error\n"
        "else:\n"
        "    raise AssertionError\n"
    )
