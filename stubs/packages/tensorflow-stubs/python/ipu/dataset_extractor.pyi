# Made by stubs/make_stubs.py.

from tensorflow_ipu.dataset_extractor import *
