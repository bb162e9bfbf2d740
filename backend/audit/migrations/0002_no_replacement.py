"""A trigger that has SQLite refuse an id that is there: REPLACE deletes the row before without firing the triggers of
DELETE. PostgreSQL has no such statement; an upsert fires those of UPDATE in both.
"""

from typing import Any

from django.db import migrations

REFUSING = """CREATE TRIGGER audit_event_no_replacement BEFORE INSERT ON audit_event
    WHEN EXISTS (SELECT 1 FROM audit_event WHERE id = NEW.id)
    BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END"""


def make(apps: Any, schema_editor: Any) -> None:
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute(REFUSING, params=None)


class Migration(migrations.Migration):
    dependencies = (("audit", "0001_initial"),)
    operations = (migrations.RunPython(make, migrations.RunPython.noop),)
