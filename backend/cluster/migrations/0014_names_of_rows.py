"""The admin spells TaskManager as Flink does."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = (("cluster", "0013_number_of_failures"),)

    operations = (migrations.AlterModelOptions(name="taskmanager", options={"verbose_name": "TaskManager"}),)
