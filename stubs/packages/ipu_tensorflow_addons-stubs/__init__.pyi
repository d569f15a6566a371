# Made by stubs/make_stubs.py.

from ipu_tensorflow_addons import keras as keras
from ipu_tensorflow_addons import layers as layers
from ipu_tensorflow_addons import v1 as v1
