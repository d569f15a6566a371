"""What programs are and have done: Executables, and reports made from them and trace events."""

from tensorflow_ipu.compiler.cache import executables
from tensorflow_ipu.profiler.text_summary import summary

__all__ = ["executables", "summary"]
