"""Estimators that train on IPUs."""
