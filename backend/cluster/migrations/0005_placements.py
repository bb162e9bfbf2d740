"""Placements of the regions of running jobs, from which a new leader adopts them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cluster", "0004_the_leader_has_a_lease")]

    operations = [
        migrations.CreateModel(
            name="Placement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("region", models.IntegerField()),
                ("attempt", models.IntegerField()),
                ("leader_epoch", models.BigIntegerField()),
                ("protocol", models.IntegerField()),
                ("parallelism", models.JSONField()),
                ("slots", models.JSONField()),
                ("stages", models.JSONField()),
                (
                    "job",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="placements", to="cluster.job"
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="placement",
            constraint=models.UniqueConstraint(fields=("job", "region"), name="one_placement_per_region"),
        ),
    ]
