"""Estimators that train, evaluate and predict on IPUs."""

from tensorflow_ipu.versions import estimators as _versions

_versions.require()
