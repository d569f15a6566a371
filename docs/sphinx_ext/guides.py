"""Which pages treat which public module: for the links from the reference to the guides."""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow_ipu.import_hook import tables

_IPU_PAGES: Mapping[str, tuple[str, ...]] = {
    "": ("tutorial/1_first_program", "parallelism", "keras", "estimators", "reports"),
    "all_to_all_op": ("parallelism",),
    "application_compile_op": ("serving",),
    "autoshard": ("parallelism",),
    "config": ("options",),
    "cross_replica_ops": ("parallelism",),
    "cross_replica_optimizer": ("parallelism",),
    "custom_ops": ("custom_ops",),
    "distributed": ("distributed",),
    "eager": ("parallelism",),
    "embedded_runtime": ("serving",),
    "embedding_ops": ("guides/host_embeddings", "operators"),
    "functional_ops": ("parallelism",),
    "grad_util_ops": ("parallelism",),
    "gradient_accumulation_optimizer": ("parallelism",),
    "horovod": ("distributed",),
    "internal_ops": ("parallelism", "operators"),
    "ipu_compiler": ("migration", "reports"),
    "ipu_estimator": ("estimators",),
    "ipu_infeed_queue": ("parallelism",),
    "ipu_outfeed_queue": ("parallelism",),
    "ipu_pipeline_estimator": ("estimators",),
    "ipu_run_config": ("estimators",),
    "ipu_session_run_hooks": ("estimators",),
    "ipu_strategy": ("tutorial/1_first_program", "keras", "parallelism"),
    "keras": ("tutorial/2_keras_model", "keras"),
    "keras.losses": ("operators",),
    "loops": ("parallelism", "guides/performance"),
    "map_gradient_optimizer": ("parallelism",),
    "nn_ops": ("operators",),
    "optimizers": ("parallelism",),
    "pipelining_ops": ("parallelism",),
    "profiler": ("tutorial/3_reading_the_report", "reports", "capacity"),
    "reduce_scatter_op": ("parallelism",),
    "replication_ops": ("parallelism",),
    "scopes": ("parallelism", "numerics"),
    "serving": ("serving",),
    "sharded_optimizer": ("parallelism",),
    "utils": ("options", "migration"),
    "vertex_edsl": ("custom_ops",),
    "within_replica_ops": ("parallelism",),
}

# Public module, or the beginning of its name -> pages that treat it, by their names.
GUIDES: Mapping[str, tuple[str, ...]] = {
    **{f"{tables.PUBLIC}.{name}".rstrip("."): pages for name, pages in _IPU_PAGES.items()},
    tables.POPXL: ("popxl", "migration_popxl"),
    tables.POPXL_ADDONS: ("popxl",),
    tables.POPART: ("popart", "popart_options", "migration_popart"),
    tables.POPART_CORE: ("popart",),
    tables.PVA: ("pva",),
    tables.POPDIST: ("distributed",),
    tables.ADDONS: ("keras",),
}


def of(name: str) -> tuple[str, ...]:
    """Returns the pages for a public module; none if no page covers it.

    Args:
        name: its full name. The longest name in the table that it begins with counts.
    """
    known = [key for key in GUIDES if f"{name}.".startswith(f"{key}.")]
    longest = max(known, key=len, default=tables.PUBLIC)
    return () if longest == tables.PUBLIC != name else GUIDES[longest]
