"""The admin calls a token an API token."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = (("accounts", "0002_apitoken_scope"),)

    operations = (migrations.AlterModelOptions(name="apitoken", options={"verbose_name": "API token"}),)
