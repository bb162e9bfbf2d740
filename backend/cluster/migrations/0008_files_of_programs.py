"""Programs are in the cluster's storage, under paths that their rows tell; those that are there keep their place."""

from __future__ import annotations

from typing import Any

from django.db import migrations, models


def tell_places(apps: Any, schema_editor: Any) -> None:
    """Earlier releases kept one file, artifacts/<sha256>/<file name>."""
    artifacts = apps.get_model("cluster", "Artifact").objects
    for artifact in artifacts.all():
        artifacts.filter(pk=artifact.pk).update(files=[f"{artifact.id}/{artifact.file_name}"])


class Migration(migrations.Migration):
    dependencies = (("cluster", "0007_operation_progress"),)

    operations = (
        migrations.AddField(model_name="artifact", name="files", field=models.JSONField(default=list)),
        migrations.RunPython(tell_places, migrations.RunPython.noop),
    )
