# Made by stubs/make_stubs.py.

from tensorflow_ipu.files.dataset_extractor import *
