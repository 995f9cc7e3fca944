"""Watching runs: classic streams and the streaming protocol, over one record (docs/architecture/streams.md)."""
