"""Runs one revision of a LangGraph project for Slipway."""

__version__ = "0.1.0"
