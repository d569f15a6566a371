# Made by stubs/make_stubs.py.

from tensorflow_ipu.estimators.ipu_run_config import *
