"""Compiled applications: programs in files that another process loads and runs.

`application` says what an application is and makes it of a Cluster, `file` writes and reads it,
`engine` runs it. The public modules are `ipu.application_compile_op` and `ipu.embedded_runtime`.
"""
