"""The model of savepoints, which has no table of its own."""

from django.db import migrations


class Migration(migrations.Migration):
    initial = True
    dependencies = [("cluster", "0013_number_of_failures")]
    operations = [
        migrations.CreateModel(
            name="Savepoint",
            fields=[],
            options={"proxy": True, "indexes": [], "constraints": []},
            bases=("cluster.operation",),
        ),
    ]
