"""Ended jobs say whether checkpoints of them may be left that they do not keep; those whose rows are left do."""

from typing import Any

from django.db import migrations, models


def mark(apps: Any, schema_editor: Any) -> None:
    jobs = apps.get_model("cluster", "Job").objects
    ended = jobs.filter(state__in=("FINISHED", "CANCELED", "FAILED"))
    left = apps.get_model("cluster", "Checkpoint").objects.filter(is_owned=True).values("job_id")
    ended.filter(id__in=left).update(may_have_leftovers=True)


class Migration(migrations.Migration):
    dependencies = [("cluster", "0010_autoscaler")]

    operations = [
        migrations.AddField("job", "may_have_leftovers", models.BooleanField(default=False, db_index=True)),
        migrations.RunPython(mark, migrations.RunPython.noop),
    ]
