"""State objects that bring what they are given to the declared types, and refuse at once what does not fit.

Made over the state classes of every backend, so that each keeps its own way of storing. State whose values are in their
types' forms already (an operator's own) and state of pickled values do without. Task thread only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.common.coercion import MISFITS, Coercer, settled_class
from runtime.common.typeinfo import TypeInformation
from runtime.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)

_SLOTS = ("_coerce", "_fit", "_fit_key", "_passing", "_passing_key")


def fitting_class(state_class: type[Any], descriptor: StateDescriptor) -> type[Any]:
    """A class of state as `state_class` that fits values to the descriptor's types; itself if these take everything.

    Args:
        state_class: of the descriptor's kind; made with (backend, index, descriptor).
        descriptor: of the state.
    """
    if all(type_info is None or type_info.coercer() is None for type_info in _types(descriptor)):
        return state_class
    return _made(state_class, type(descriptor))


class Fit:
    """Fits the values of one part of a state.

    Args:
        descriptor: of the state.
        type_info: of the values; None for Python objects.

    Attributes:
        coerce: the bare conversion, for hot paths; `refused` makes the error of what it raises.
        passing: a class whose instances need no conversion; None if there is none.
    """

    __slots__ = ("_place", "coerce", "passing")

    def __init__(self, descriptor: StateDescriptor, type_info: TypeInformation | None) -> None:
        self.coerce: Coercer = (None if type_info is None else type_info.coercer()) or _as_it_is
        self.passing = settled_class(self.coerce)
        self._place = f"state {descriptor.get_name()!r}, which is declared as {descriptor.type_info or type_info}"

    def __call__(self, value: Any) -> Any:
        """The value in its type's form.

        Raises:
            TypeError: it does not fit; the message names the state.
            OverflowError: it is beyond the type's range; likewise.
        """
        try:
            return self.coerce(value)
        except MISFITS as error:
            raise self.refused(error) from error

    def refused(self, error: Exception) -> Exception:
        """The error of a value that `coerce` has refused."""
        return type(error)(f"{self._place}: {error}")

    def result_of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its results fitted."""
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


def _made(base: type[Any], kind: type[StateDescriptor]) -> type[Any]:
    methods = next((make(base) for known, make in _METHODS.items() if issubclass(kind, known)), None)
    if methods is None:
        methods = _value_methods(base)
    return type(f"Fitting{base.__name__}", (base,), {"__slots__": _SLOTS, **methods})


def _initializer(base: type[Any]) -> Callable[..., None]:
    def initialize(self: Any, backend: Any, index: int, descriptor: StateDescriptor) -> None:
        base.__init__(self, backend, index, descriptor)
        self._fit = Fit(descriptor, _types(descriptor)[-1])
        self._coerce, self._passing = self._fit.coerce, self._fit.passing

    return initialize


# The methods call the coercers themselves, not Fit: they run for every record.


def _value_methods(base: type[Any]) -> dict[str, Any]:
    base_update = base.update

    def update(self: Any, value: Any) -> None:
        if value.__class__ is not self._passing:
            try:
                value = self._coerce(value)
            except MISFITS as error:
                raise self._fit.refused(error) from error
        base_update(self, value)

    return {"__init__": _initializer(base), "update": update}


def _list_methods(base: type[Any]) -> dict[str, Any]:
    base_add, base_add_all, base_update = base.add, base.add_all, base.update

    def add(self: Any, value: Any) -> None:
        if value.__class__ is not self._passing:
            try:
                value = self._coerce(value)
            except MISFITS as error:
                raise self._fit.refused(error) from error
        base_add(self, value)

    def add_all(self: Any, values: Any) -> None:
        base_add_all(self, list(map(self._fit, values)))

    def update(self: Any, values: Any) -> None:
        base_update(self, list(map(self._fit, values)))

    return {"__init__": _initializer(base), "add": add, "add_all": add_all, "update": update}


def _map_methods(base: type[Any]) -> dict[str, Any]:
    initialize_fit = _initializer(base)
    base_get, base_put, base_put_all = base.get, base.put, base.put_all
    base_contains, base_remove = base.contains, base.remove

    def initialize(self: Any, backend: Any, index: int, descriptor: MapStateDescriptor) -> None:
        initialize_fit(self, backend, index, descriptor)
        self._fit_key = Fit(descriptor, descriptor.key_type_info)
        self._passing_key = self._fit_key.passing

    def get(self: Any, key: Any) -> Any:
        return base_get(self, key if key.__class__ is self._passing_key else self._fit_key(key))

    def contains(self: Any, key: Any) -> Any:
        return base_contains(self, self._fit_key(key))

    def remove(self: Any, key: Any) -> None:
        base_remove(self, self._fit_key(key))

    def put(self: Any, key: Any, value: Any) -> None:
        if key.__class__ is not self._passing_key:
            key = self._fit_key(key)
        if value.__class__ is not self._passing:
            try:
                value = self._coerce(value)
            except MISFITS as error:
                raise self._fit.refused(error) from error
        base_put(self, key, value)

    def put_all(self: Any, dict_value: Any) -> None:
        fit_key, fit = self._fit_key, self._fit
        base_put_all(self, {fit_key(key): fit(value) for key, value in dict(dict_value).items()})

    methods = (get, contains, remove, put, put_all)
    return {"__init__": initialize, **{method.__name__: method for method in methods}}


def _reducing_methods(base: type[Any]) -> dict[str, Any]:
    initialize_fit = _initializer(base)
    base_add = base.add

    def initialize(self: Any, backend: Any, index: int, descriptor: ReducingStateDescriptor) -> None:
        initialize_fit(self, backend, index, descriptor)
        self._reduce = self._fit.result_of(descriptor.get_reduce_function().reduce)

    def add(self: Any, value: Any) -> None:
        base_add(self, self._fit(value))

    return {"__init__": initialize, "add": add}


def _aggregating_methods(base: type[Any]) -> dict[str, Any]:
    initialize_fit = _initializer(base)

    def initialize(self: Any, backend: Any, index: int, descriptor: AggregatingStateDescriptor) -> None:
        initialize_fit(self, backend, index, descriptor)
        self._function = FittedAggregate(descriptor.get_agg_function(), self._fit)

    return {"__init__": initialize}


_METHODS: dict[type[StateDescriptor], Callable[[type[Any]], dict[str, Any]]] = {
    ListStateDescriptor: _list_methods,
    MapStateDescriptor: _map_methods,
    ReducingStateDescriptor: _reducing_methods,
    AggregatingStateDescriptor: _aggregating_methods,
}
