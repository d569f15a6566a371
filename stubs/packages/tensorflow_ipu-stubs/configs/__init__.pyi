# Made by stubs/make_stubs.py.
