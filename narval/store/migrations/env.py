"""The environment of Alembic: the connection and the transaction of `migrate.py`."""

from alembic import context

from narval.store.columns import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,  # SQLite alters a table by making it anew
)
context.run_migrations()
