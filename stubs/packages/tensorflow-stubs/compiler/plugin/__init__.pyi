# Made by stubs/make_stubs.py.

from tensorflow.compiler.plugin import poplar as poplar
