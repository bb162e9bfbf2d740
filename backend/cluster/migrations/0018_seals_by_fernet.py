"""Seals of rows of jobs are Fernet's, and rows from before there were seals hide their secrets, too."""

import base64
import hashlib
import hmac
from typing import Any

from django.conf import settings
from django.db import migrations
from django.utils.crypto import salted_hmac

from backend.cluster.withheld import given_of, sealed, withhold

_NONCE_BYTES = 32
_TAG_BYTES = 32
_COLUMNS = ("graph", "program_args", "configuration", "submission", "withheld")


def seal(apps: Any, schema_editor: Any) -> None:
    """Seal the rows of all jobs; those whose key nobody has any more stay, as they could not be read before either."""
    jobs = apps.get_model("cluster", "Job").objects.using(schema_editor.connection.alias)
    for job in jobs.only(*_COLUMNS).iterator(chunk_size=20):
        former = job.withheld
        if former:
            text = unsealed_by_hand(job.id, former)
            if text is None:
                continue
            job.withheld = sealed(job.id, text)
        shown, withheld = withhold(job.id, given_of(job))
        if withheld:
            jobs.filter(id=job.id, withheld=former).update(
                graph=dict(shown.graph),
                program_args=list(shown.args),
                configuration=dict(shown.configuration),
                submission=dict(shown.submission),
                withheld=withheld,
            )


def unsealed_by_hand(job_id: str, seal: str) -> str | None:
    """Return the text of a seal of 0017, XOR with SHAKE-256 and HMAC-SHA-256 under two keys; None: no key fits."""
    try:
        raw = base64.b64decode(seal)
    except ValueError:
        return None
    nonce, tag, cipher = raw[:_NONCE_BYTES], raw[_NONCE_BYTES:][:_TAG_BYTES], raw[_NONCE_BYTES + _TAG_BYTES :]
    # the cluster's key may have been the secret key until now
    for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS, *settings.TIDEMARK_CLUSTER_KEYS):
        expected = hmac.digest(_key("tidemark.withheld.tag", secret), job_id.encode() + nonce + cipher, "sha256")
        if hmac.compare_digest(tag, expected):
            key = _key("tidemark.withheld.cipher", secret)
            stream = hashlib.shake_256(key + nonce).digest(len(cipher))
            return bytes(a ^ b for a, b in zip(cipher, stream, strict=True)).decode()
    return None


def _key(salt: str, secret: str) -> bytes:
    return salted_hmac(salt, "", secret, algorithm="sha256").digest()


class Migration(migrations.Migration):
    dependencies = (("cluster", "0017_withheld_of_jobs"),)

    operations = (migrations.RunPython(seal, migrations.RunPython.noop),)
