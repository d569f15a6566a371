# Made by stubs/make_stubs.py.

from ipu_tensorflow_addons.v1 import layers as layers
