"""Activation and loss functions."""
