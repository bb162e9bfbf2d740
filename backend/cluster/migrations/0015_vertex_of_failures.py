"""A failure names the vertex that failed; earlier ones do not."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("cluster", "0014_names_of_rows"),)

    operations = (
        migrations.AddField(
            model_name="jobexception",
            name="vertex",
            field=models.CharField(default="", max_length=32),
        ),
    )
