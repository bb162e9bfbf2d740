"""Bounds of the parallelisms of jobs; those of jobs that are there are the parallelisms that they have."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cluster", "0005_placements")]

    operations = [migrations.AddField("job", "requirements", models.JSONField(default=dict))]
