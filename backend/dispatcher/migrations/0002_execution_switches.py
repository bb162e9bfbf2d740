import backend.cluster.models
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dispatcher", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ExecutionSwitch",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=backend.cluster.models.new_id, max_length=32, primary_key=True, serialize=False
                    ),
                ),
                ("state_times", models.JSONField(default=dict)),
                ("message", models.TextField(default="")),
                ("job_id", models.CharField(db_index=True, default=backend.cluster.models.new_id, max_length=32)),
                ("stop_id", models.CharField(default=backend.cluster.models.new_id, max_length=32)),
                ("cancel_id", models.CharField(default=backend.cluster.models.new_id, max_length=32)),
                ("rollback_job_id", models.CharField(default=backend.cluster.models.new_id, max_length=32)),
                ("created_at", models.BigIntegerField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("CHECKED", "Checked"),
                            ("STOPPING", "Stopping"),
                            ("SUBMITTED", "Submitted"),
                            ("RUNNING", "Running"),
                            ("ROLLING_BACK", "Rolling Back"),
                            ("ROLLED_BACK", "Rolled Back"),
                            ("FAILED", "Failed"),
                        ],
                        db_index=True,
                        max_length=16,
                    ),
                ),
                ("old_job_id", models.CharField(db_index=True, max_length=32)),
                ("execution", models.CharField(max_length=16)),
                ("savepoint", models.TextField(default="")),
                ("planned", models.TextField(default="")),
                ("idempotency_key", models.CharField(max_length=100)),
                (
                    "created_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("created_by", "idempotency_key"), name="one_switch_per_key"),
                    models.UniqueConstraint(
                        condition=models.Q(
                            ("state__in", ("COMPILED", "CHECKED", "STOPPING", "SUBMITTED", "ROLLING_BACK"))
                        ),
                        fields=("old_job_id",),
                        name="one_open_switch_per_job",
                    ),
                ],
            },
        ),
    ]
