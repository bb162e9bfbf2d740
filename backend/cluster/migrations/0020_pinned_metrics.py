"""Jobs know the metrics whose history somebody has asked for."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("cluster", "0019_python_environments"),)

    operations = (
        migrations.AddField(
            model_name="job",
            name="pinned_metrics",
            field=models.JSONField(default=list),
        ),
    )
