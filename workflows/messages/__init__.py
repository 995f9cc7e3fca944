"""What workflows, activities and clients say to each other: plain dataclasses and the names on the wire.

Payloads carry ids and small plain types only; prompts, outputs and secrets stay in PostgreSQL.
New fields get a default: running workflows hold older payloads.
"""
