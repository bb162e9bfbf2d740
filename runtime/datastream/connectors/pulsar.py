"""PyFlink's `connectors.pulsar`: every name of it is refused with the reason in `runtime.common.exclusions`."""

from runtime.common.exclusions import refusing_module

__all__: list[str] = []

__getattr__ = refusing_module(__name__)
