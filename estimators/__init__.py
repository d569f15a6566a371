"""Estimators that train, evaluate and predict on IPUs."""
