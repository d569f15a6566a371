"""Listing of a compiled program's ops with IPU, bytes, work, copies and source line."""
