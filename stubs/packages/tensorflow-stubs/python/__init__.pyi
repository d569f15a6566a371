# Made by stubs/make_stubs.py.

from typing import Any

def __getattr__(name: str) -> Any: ...
