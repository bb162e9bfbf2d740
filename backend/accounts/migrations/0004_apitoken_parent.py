"""A token is revoked with the one that it was made with; of earlier ones nobody knows that."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = (("accounts", "0003_names_of_rows"),)

    operations = (
        migrations.AddField(
            model_name="apitoken",
            name="parent",
            field=models.ForeignKey(
                null=True,
                on_delete=models.deletion.CASCADE,
                related_name="children",
                to="accounts.apitoken",
            ),
        ),
    )
