"""The table, and triggers that refuse to change or delete a row of it."""

from typing import Any

from django.db import migrations, models

SQLITE = [
    """CREATE TRIGGER audit_event_no_update BEFORE UPDATE ON audit_event
       BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END""",
    """CREATE TRIGGER audit_event_no_delete BEFORE DELETE ON audit_event
       BEGIN SELECT RAISE(ABORT, 'the audit trail is append-only'); END""",
]
POSTGRESQL = [
    """CREATE FUNCTION audit_event_refuse() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'the audit trail is append-only'; END $$""",
    """CREATE TRIGGER audit_event_no_change BEFORE UPDATE OR DELETE ON audit_event
       FOR EACH ROW EXECUTE FUNCTION audit_event_refuse()""",
    """CREATE TRIGGER audit_event_no_truncate BEFORE TRUNCATE ON audit_event
       FOR EACH STATEMENT EXECUTE FUNCTION audit_event_refuse()""",
]


class _Event(models.Model):
    """The table as of this migration."""

    id = models.BigAutoField(primary_key=True)
    at = models.BigIntegerField(db_index=True)
    user = models.CharField(max_length=150, blank=True)
    token = models.CharField(max_length=100, blank=True)
    address = models.CharField(max_length=64, blank=True)
    action = models.CharField(max_length=150)
    object = models.CharField(max_length=255, blank=True)
    result = models.CharField(max_length=16)
    status = models.IntegerField(null=True)
    detail = models.JSONField(default=dict)

    class Meta:
        app_label = "audit_migration"
        db_table = "audit_event"


def make(apps: Any, schema_editor: Any) -> None:
    schema_editor.create_model(_Event)
    for statement in SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRESQL:
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):
    initial = True
    dependencies = []
    operations = [
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("at", models.BigIntegerField(db_index=True)),
                ("user", models.CharField(blank=True, max_length=150)),
                ("token", models.CharField(blank=True, max_length=100)),
                ("address", models.CharField(blank=True, max_length=64)),
                ("action", models.CharField(max_length=150)),
                ("object", models.CharField(blank=True, max_length=255)),
                ("result", models.CharField(max_length=16)),
                ("status", models.IntegerField(null=True)),
                ("detail", models.JSONField(default=dict)),
            ],
            options={"db_table": "audit_event", "managed": False},
        ),
        migrations.RunPython(make, migrations.RunPython.noop),
    ]
