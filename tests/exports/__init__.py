"""Bulk exports, against real servers."""
