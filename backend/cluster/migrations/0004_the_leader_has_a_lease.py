"""The leader's lease: a beat that it renews, and its address."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("cluster", "0003_failures_name_their_taskmanager"),)
    operations = (
        migrations.AddField("leaderepoch", "beat", models.BigIntegerField(default=0)),
        migrations.AddField("leaderepoch", "address", models.CharField(default="", max_length=255)),
    )
