"""Jobs have tags; earlier ones have none."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("cluster", "0015_vertex_of_failures"),)

    operations = (
        migrations.AddField(
            model_name="job",
            name="tags",
            field=models.JSONField(default=list),
        ),
    )
