"""Transport: how the streams between JobMasters and slots are carried, in the clear or with mutual TLS.

TIDEMARK_INTERNAL_TLS names a directory with `ca.crt`, `tls.crt` and `tls.key`, as a Kubernetes secret of that type has
them. Each end then shows its certificate, and takes only what the authority has signed. Addresses are not compared, as
slots have others after every start: all certificates carry one name. The token of the attempt is proven as without TLS
(`runtime.network.opening`), so a certificate alone opens nothing. Any thread.

Source: Flink, `security.ssl.internal.*`, which authenticates both ends and does not verify host names, either.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.flight as fl

TLS_DIRECTORY = "TIDEMARK_INTERNAL_TLS"
"""Environment variable of all processes that open or take such streams; empty: they are in the clear."""
TLS_NAME = "tidemark.internal"
"""DNS name in the certificates of all processes."""
_SCHEME = "grpc+tls"


class TlsError(Exception):
    """There are no certificates where there should be, or a peer has none."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """Certificate and key that a process shows, and the authority by which it judges others; each in PEM."""

    authority: str
    certificate: str
    key: str


@dataclass(frozen=True, slots=True)
class Transport:
    """One way to listen and to connect. Certificates are those of the moment when it was made."""

    certificates: Certificates | None

    @classmethod
    def of_environment(cls) -> Transport:
        """Return what TIDEMARK_INTERNAL_TLS asks for.

        Raises:
            TlsError: a file cannot be read.
        """
        directory = os.environ.get(TLS_DIRECTORY)
        if not directory:
            return cls(None)
        try:
            authority, certificate, key = (
                (Path(directory) / name).read_text() for name in ("ca.crt", "tls.crt", "tls.key")
            )
        except (OSError, UnicodeDecodeError) as error:
            raise TlsError(f"{TLS_DIRECTORY}={directory} must have ca.crt, tls.crt and tls.key: {error}") from error
        return cls(Certificates(authority, certificate, key))

    @property
    def scheme(self) -> str:
        """Of the addresses of servers."""
        return "grpc+tcp" if self.certificates is None else _SCHEME

    def server_arguments(self) -> dict[str, Any]:
        """Return what a Flight server is to be made with."""
        own = self.certificates
        if own is None:
            return {}
        return {
            "tls_certificates": [(own.certificate, own.key)],
            "verify_client": True,
            "root_certificates": own.authority,
        }

    def connect(self, address: str, options: Sequence[tuple[str, int]] = ()) -> Any:
        """Return a Flight client; it connects with its first call.

        Args:
            address: "scheme://host:port", as the server has told it.
            options: further ones of gRPC.

        Raises:
            TlsError: one end has TLS, and the other has not.
        """
        own = self.certificates
        # gRPC would go through a proxy that the environment names
        direct = [("grpc.enable_http_proxy", 0), *options]
        if address.startswith(f"{_SCHEME}:") != (own is not None):
            raise TlsError(
                f"{address} and {TLS_DIRECTORY} of this process disagree: set it for all processes, or for none"
            )
        if own is None:
            return fl.FlightClient(address, generic_options=direct)
        return fl.FlightClient(
            address,
            tls_root_certs=own.authority,
            cert_chain=own.certificate,
            private_key=own.key,
            override_hostname=TLS_NAME,
            generic_options=direct,
        )
