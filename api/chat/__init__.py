"""The streaming chat application: its routes under /api/threads, and its page (docs/architecture/chat.md)."""
