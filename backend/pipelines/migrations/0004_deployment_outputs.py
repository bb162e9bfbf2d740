from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("pipelines", "0003_marks"),
    ]

    operations = [
        migrations.AddField(
            model_name="deployment",
            name="outputs",
            field=models.JSONField(default=dict),
        ),
    ]
