"""Costs of matrix products, convolutions and recurrent layers."""
