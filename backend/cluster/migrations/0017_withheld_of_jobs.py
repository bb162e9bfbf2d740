"""Rows of jobs hide secrets, and seal their values; those of earlier jobs stay as they are."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("cluster", "0016_tags_of_jobs"),)

    operations = (
        migrations.AddField(
            model_name="job",
            name="withheld",
            field=models.TextField(blank=True, default=""),
        ),
    )
