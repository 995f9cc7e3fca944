"""Bulk exports: destinations, one-time and scheduled exports (bulk export contract §1)."""
