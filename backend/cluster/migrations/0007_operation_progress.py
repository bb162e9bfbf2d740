"""Operations that follow others, and where the savepoints of operations go; those that are there say nothing of it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("cluster", "0006_requirements")]

    operations = [
        migrations.AddField("operation", "progress", models.JSONField(null=True)),
        migrations.AddField(
            "operation",
            "follows",
            models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.CASCADE, related_name="followers", to="cluster.operation"
            ),
        ),
    ]
