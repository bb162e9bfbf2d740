"""What autoscalers have decided, and whether users have switched them on; those of jobs that are there are not."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cluster", "0009_checkpoint_statistics")]

    operations = [
        migrations.AddField("job", "autoscaler_enabled", models.BooleanField(null=True)),
        migrations.CreateModel(
            name="Scaling",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("decided_at", models.BigIntegerField()),
                ("stamp", models.DateTimeField()),
                ("reason", models.TextField()),
                ("changes", models.JSONField()),
                ("cost_ms", models.FloatField(null=True)),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="scalings", to="cluster.job"
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["job", "-id"], name="scaling_by_job")]},
        ),
    ]
