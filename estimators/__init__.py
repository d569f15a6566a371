"""Estimators that train, evaluate and predict on IPUs."""

from tensorflow_ipu.import_hook.versions import estimators as _versions

_versions.require()
