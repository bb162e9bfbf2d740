"""Counts of checkpoints that outlive their leader; those of jobs that run begin with the next checkpoint."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cluster", "0008_files_of_programs")]

    operations = [
        migrations.CreateModel(
            "CheckpointStatistics",
            [
                (
                    "job",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="checkpoint_statistics",
                        serialize=False,
                        to="cluster.job",
                    ),
                ),
                ("ended", models.BigIntegerField()),
                ("record", models.JSONField()),
            ],
        )
    ]
