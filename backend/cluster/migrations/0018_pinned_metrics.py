"""Jobs know the metrics whose history somebody has asked for."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("cluster", "0017_withheld_of_jobs"),)

    operations = (
        migrations.AddField(
            model_name="job",
            name="pinned_metrics",
            field=models.JSONField(default=list),
        ),
    )
