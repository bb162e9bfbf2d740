"""A whole cluster whose slots show certificates to each other and to the JobManager."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from runtime.network.tls import TLS_NAME
from tests.cluster.stack import ROOT, Stack, running_stack
from tests.cluster.test_stack import DEMO, is_running
from tests.support.certificates import Authority
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]


def encrypted_ports(stack: Stack, certificates: Path) -> set[str]:
    """Return the kinds of processes of the cluster that have a listener under the cluster's certificates."""
    context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    context.load_cert_chain(certificates / "tls.crt", certificates / "tls.key")
    context.set_alpn_protocols(["h2"])
    found = set()
    for process in stack.processes():
        command = " ".join(process.cmdline())
        for connection in process.net_connections("tcp"):
            if connection.status != psutil.CONN_LISTEN:
                continue
            try:
                with (
                    socket.create_connection(("127.0.0.1", connection.laddr.port), 5) as raw,
                    context.wrap_socket(raw, server_hostname=TLS_NAME),
                ):
                    found.add("jobmanager" if "manage.py jobmanager" in command else "slot")
            except OSError:
                # not theirs: Redis, the page, Spark
                continue
    return found


def test_jobs_run_over_encrypted_streams(tmp_path: Path) -> None:
    certificates = Authority.new().write(tmp_path / "tls")
    with running_stack(tmp_path / "home", TIDEMARK_INTERNAL_TLS=str(certificates), TIDEMARK_SLOTS="2") as stack:
        wait_until(lambda: is_running(stack, DEMO), 90, "the demo runs")
        wait_until(lambda: encrypted_ports(stack, certificates) == {"jobmanager", "slot"}, 30, "TLS at both ends")


@pytest.mark.parametrize("command", [("-m", "backend.supervisor"), ("manage.py", "jobmanager")])
def test_no_process_starts_without_its_certificates(command: tuple[str, ...], tmp_path: Path) -> None:
    environment = os.environ | {
        "TIDEMARK_HOME": str(tmp_path / "home"),
        "TIDEMARK_INTERNAL_TLS": str(tmp_path / "nothing"),
        "DJANGO_SETTINGS_MODULE": "backend.config.settings",
    }
    told = subprocess.run(
        (sys.executable, *command), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert told.returncode == 1
    assert "must have ca.crt, tls.crt and tls.key" in told.stderr and "Traceback" not in told.stderr
