"""Python environments of jobs."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("cluster", "0018_seals_by_fernet"),)

    operations = (
        migrations.CreateModel(
            name="PythonEnvironment",
            fields=[
                ("id", models.CharField(max_length=64, primary_key=True, serialize=False)),
                ("path", models.CharField(max_length=255)),
                ("size", models.BigIntegerField()),
                ("packages", models.JSONField(default=list)),
                ("made_at", models.BigIntegerField()),
                ("used_at", models.BigIntegerField(db_index=True)),
            ],
        ),
    )
