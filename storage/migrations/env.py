"""Alembic environment: runs on the connection that `storage.migrate` hands over, inside its lock."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], target_metadata=None)
with context.begin_transaction():
    context.run_migrations()
