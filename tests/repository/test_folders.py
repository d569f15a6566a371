"""Tests that no folder of the package has more modules than a reader takes in at a glance."""

from __future__ import annotations

import collections

from tests.support import repository

MOST_MODULES = 20
# Most modules of `ops` are the names that programs import.
MOST_MODULES_OF = {"ops": 30}


def test_no_folder_has_too_many_modules():
    counts = collections.Counter(
        path.parent.relative_to(repository.ROOT).as_posix()
        for path in repository.modules()
        if path.name != "__init__.py" and not path.name.endswith("_pb2.py")
    )
    too_many = {
        folder: count
        for folder, count in counts.items()
        if count > MOST_MODULES_OF.get(folder, MOST_MODULES)
    }
    assert too_many == {}, "Make a folder for those that belong together; see docs/map.md."
