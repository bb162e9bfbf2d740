from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pipelines", "0002_deployments"),
    ]

    operations = [
        migrations.CreateModel(
            name="Mark",
            fields=[
                ("name", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("value", models.CharField(max_length=200)),
                ("made_at", models.BigIntegerField()),
            ],
        ),
    ]
