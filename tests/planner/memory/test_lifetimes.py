"""The order of a program is chosen by the memory that it takes in that order."""

from __future__ import annotations
