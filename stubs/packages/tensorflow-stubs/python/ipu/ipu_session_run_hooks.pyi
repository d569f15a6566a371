# Made by stubs/make_stubs.py.

from tensorflow_ipu.estimators.ipu_session_run_hooks import *
