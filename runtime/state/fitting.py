"""State objects that convert values to the declared types when they are given, and refuse values that do not fit.

They wrap the state classes of every backend, so that each keeps its own way of storing. Internal state of operators,
whose values already have the right form, and state of pickled values are not wrapped. Task thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.common.coercion import MISFITS, Coercer, settled_test
from runtime.common.typeinfo import TypeInformation
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)

_SLOTS = ("_fit", "_fit_key")


def fitting_class(state_class: type[Any], descriptor: StateDescriptor) -> type[Any]:
    """Return a subclass of `state_class` that fits values to the descriptor's types; itself if these accept everything.

    Args:
        state_class: of the descriptor's kind; made with (backend, index, descriptor).
        descriptor: of the state.
    """
    if all(type_info is None or type_info.coercer() is None for type_info in _types(descriptor)):
        return state_class
    return _made(state_class, descriptor)


class Fit:
    """Fits the values of one part of a state.

    Args:
        descriptor: of the state.
        type_info: of the values; None for Python objects.
    """

    __slots__ = ("_coerce", "_place")

    def __init__(self, descriptor: StateDescriptor, type_info: TypeInformation | None) -> None:
        self._coerce: Coercer = (None if type_info is None else type_info.coercer()) or _as_it_is
        self._place = f"state {descriptor.get_name()!r}, which is declared as {descriptor.type_info or type_info}"

    def __call__(self, value: Any) -> Any:
        """Return the value in its type's form.

        Raises:
            TypeError: it does not fit; the message names the state.
            OverflowError: it is beyond the type's range; likewise.
        """
        try:
            return self._coerce(value)
        except MISFITS as error:
            raise type(error)(f"{self._place}: {error}") from error

    def result_of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its results fitted."""
        return lambda *arguments: self(function(*arguments))


class FittedAggregate:
    """An AggregateFunction whose accumulators fit the type of the state that they are kept in."""

    def __init__(self, function: Any, fit: Fit) -> None:
        self.create_accumulator = function.create_accumulator
        self.get_result = function.get_result
        self.add = fit.result_of(function.add)
        self.merge = fit.result_of(function.merge)


def _types(descriptor: StateDescriptor) -> list[TypeInformation | None]:
    if isinstance(descriptor, MapStateDescriptor):
        return [descriptor.key_type_info, descriptor.value_type_info]
    return [descriptor.elem_type_info if isinstance(descriptor, ListStateDescriptor) else descriptor.type_info]


def _as_it_is(value: Any) -> Any:
    return value


def _made(base: type[Any], descriptor: StateDescriptor) -> type[Any]:
    kind = type(descriptor)
    methods = next((make for known, make in _METHODS.items() if issubclass(kind, known)), _value_methods)
    return type(f"Fitting{base.__name__}", (base,), {"__slots__": _SLOTS, **methods(base, descriptor)})


def _initializer(base: type[Any]) -> Callable[..., None]:
    def initialize(self: Any, backend: Any, index: int, descriptor: StateDescriptor) -> None:
        base.__init__(self, backend, index, descriptor)
        self._fit = Fit(descriptor, _types(descriptor)[-1])

    return initialize


def _compiled(template: str, base: type[Any], **type_infos: TypeInformation | None) -> dict[str, Any]:
    """Generate methods that run for every record, with tests that skip the conversion of values that need none.

    Args:
        template: their text. `{value}` stands for a test that the parameter of that name has its type's form, and
            `base` for the wrapped class.
        base: the wrapped class.
        type_infos: by the parameter's name.
    """
    names: dict[str, Any] = {"base": base}
    tests = {}
    for name, type_info in type_infos.items():
        tests[name] = settled_test(None if type_info is None else type_info.coercer(), name, names) or "False"
    methods: dict[str, Any] = {}
    exec(template.format(**tests), names, methods)  # as dataclasses makes __init__
    return methods


def _value_methods(base: type[Any], descriptor: StateDescriptor) -> dict[str, Any]:
    update = """
def update(self, value, write=base.update):
    write(self, value if {value} else self._fit(value))
"""
    return {"__init__": _initializer(base), **_compiled(update, base, value=_types(descriptor)[-1])}


def _list_methods(base: type[Any], descriptor: StateDescriptor) -> dict[str, Any]:
    base_add_all, base_update = base.add_all, base.update
    add = """
def add(self, value, append=base.add):
    append(self, value if {value} else self._fit(value))
"""

    def add_all(self: Any, values: Any) -> None:
        base_add_all(self, list(map(self._fit, values)))

    def update(self: Any, values: Any) -> None:
        base_update(self, list(map(self._fit, values)))

    compiled = _compiled(add, base, value=_types(descriptor)[-1])
    return {"__init__": _initializer(base), **compiled, "add_all": add_all, "update": update}


def _map_methods(base: type[Any], descriptor: StateDescriptor) -> dict[str, Any]:
    initialize_fit = _initializer(base)
    base_put_all = base.put_all
    key_type, value_type = _types(descriptor)
    by_key = """
def get(self, key, read=base.get):
    return read(self, key if {key} else self._fit_key(key))

def contains(self, key, find=base.contains):
    return find(self, key if {key} else self._fit_key(key))

def remove(self, key, delete=base.remove):
    delete(self, key if {key} else self._fit_key(key))

def put(self, key, value, write=base.put):
    write(self, key if {key} else self._fit_key(key), value if {value} else self._fit(value))
"""

    def initialize(self: Any, backend: Any, index: int, descriptor: MapStateDescriptor) -> None:
        initialize_fit(self, backend, index, descriptor)
        self._fit_key = Fit(descriptor, descriptor.key_type_info)

    def put_all(self: Any, dict_value: Any) -> None:
        fit_key, fit = self._fit_key, self._fit
        base_put_all(self, {fit_key(key): fit(value) for key, value in dict(dict_value).items()})

    compiled = _compiled(by_key, base, key=key_type, value=value_type)
    return {"__init__": initialize, **compiled, "put_all": put_all}


def _reducing_methods(base: type[Any], descriptor: StateDescriptor) -> dict[str, Any]:
    initialize_fit = _initializer(base)
    add = """
def add(self, value, merge=base.add):
    merge(self, value if {value} else self._fit(value))
"""

    def initialize(self: Any, backend: Any, index: int, descriptor: ReducingStateDescriptor) -> None:
        initialize_fit(self, backend, index, descriptor)
        self._reduce = self._fit.result_of(descriptor.get_reduce_function().reduce)

    return {"__init__": initialize, **_compiled(add, base, value=_types(descriptor)[-1])}


def _aggregating_methods(base: type[Any], _: StateDescriptor) -> dict[str, Any]:
    initialize_fit = _initializer(base)

    def initialize(self: Any, backend: Any, index: int, descriptor: AggregatingStateDescriptor) -> None:
        initialize_fit(self, backend, index, descriptor)
        self._function = FittedAggregate(descriptor.get_agg_function(), self._fit)

    return {"__init__": initialize}


_METHODS: dict[type[StateDescriptor], Callable[[type[Any], StateDescriptor], dict[str, Any]]] = {
    ListStateDescriptor: _list_methods,
    MapStateDescriptor: _map_methods,
    ReducingStateDescriptor: _reducing_methods,
    AggregatingStateDescriptor: _aggregating_methods,
}
