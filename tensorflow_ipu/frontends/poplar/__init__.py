"""Poplar: headers and libraries for C++ programs, and `popc`, which compiles codelets.

The library itself is C++: `native/poplar/`.
"""
