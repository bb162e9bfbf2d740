"""Jobs count their failures: only the newest ones keep a row."""

from typing import Any

from django.db import migrations, models


def count(apps: Any, schema_editor: Any) -> None:
    failures = apps.get_model("cluster", "JobException").objects.order_by()
    for row in failures.values("job_id").annotate(number=models.Count("id")):
        apps.get_model("cluster", "Job").objects.filter(id=row["job_id"]).update(num_failures=row["number"])


class Migration(migrations.Migration):
    dependencies = [("cluster", "0012_cluster_identity")]

    operations = [
        migrations.AddField("job", "num_failures", models.IntegerField(default=0)),
        migrations.RunPython(count, migrations.RunPython.noop),
    ]
