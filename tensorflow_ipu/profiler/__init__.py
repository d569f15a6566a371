"""What programs have done: reports made from Executables and trace events."""

from tensorflow_ipu.profiler.text_summary import summary

__all__ = ["summary"]
