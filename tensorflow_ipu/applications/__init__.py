"""Compiled applications: programs in files that another process loads and runs.

`application` defines applications and compiles them from Clusters, `file` writes and reads them,
`engine` runs them. The public modules are `ipu.application_compile_op` and `ipu.embedded_runtime`.
"""
