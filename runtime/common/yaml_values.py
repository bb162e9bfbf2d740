"""Reads YAML as PyFlink reads the values of lists: with the rules of ruamel.yaml's safe loader, on PyYAML.

Words have the meaning of YAML 1.2 (`yes` is text, `010` is ten, `0o10` is eight) unless the text begins with
`%YAML 1.1`. Reads nothing but the text, and makes plain values only. Pure; any thread may call it.
Source: ruamel.yaml 0.19.1, resolver.py, scanner.py and constructor.py.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final, cast

import yaml
from yaml.constructor import ConstructorError
from yaml.events import AliasEvent, Event
from yaml.nodes import MappingNode, Node, ScalarNode
from yaml.parser import ParserError
from yaml.scanner import ScannerError
from yaml.tokens import AliasToken, AnchorToken, FlowMappingStartToken, ScalarToken, Token, ValueToken

__all__ = ["read_yaml"]

_TAG: Final = "tag:yaml.org,2002:"
_END_OR_SPACE: Final = "\0 \t\r\n\x85\u2028\u2029"
_WORDS: Final = (
    # tag, form, first characters
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (
        "float",
        r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|[-+]?\.[0-9_]+(?:[eE][-+][0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("int", r"[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?[0-9_]+|[-+]?0x[0-9a-fA-F_]+", "-+0123456789"),
    ("merge", r"<<", "<"),
    ("null", r"~|null|Null|NULL|", "~nN"),
    (
        "timestamp",
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}"
        r"(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?",
        "0123456789",
    ),
    ("value", r"=", "="),
)
_WORDS_OF_1_1: Final = (
    (
        "bool",
        r"y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF",
        "yYnNtTfFoO",
    ),
    (
        "float",
        r"[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+|\.[0-9_]+(?:[eE][-+][0-9]+)?"
        r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    (
        "int",
        r"[-+]?0b[01_]+|[-+]?0?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+"
        r"|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+",
        "-+0123456789",
    ),
    *(word for word in _WORDS if word[0] not in ("bool", "float", "int")),
)
_BOOLS: Final = {**yaml.SafeLoader.bool_values, "y": True, "n": False}
_RADIX: Final = {"0b": 2, "0o": 8, "0x": 16}
_TIMESTAMP: Final = re.compile(
    r"(\d{4})-(\d\d?)-(\d\d?)(?:(?:[Tt]|[ \t]+)(\d\d?):(\d\d):(\d\d)(?:\.(\d*))?"
    r"(?:[ \t]*(Z|([-+])(\d\d?)(?::(\d\d))?))?)?",
    re.ASCII,
)


def read_yaml(text: str) -> Any:
    """Return the value of a YAML document; of an empty one None.

    Raises:
        ValueError: it is not YAML, has several documents, a key twice, or a tag that makes no plain value; the message
            says where.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError("the value is nested too deeply") from None


class _Loader(yaml.SafeLoader):
    """PyYAML's loader, made to read as ruamel.yaml's."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        #: beginnings of the lists and mappings in brackets that have not ended
        self._open: list[type[Token]] = []

    # --- scanner ---

    def fetch_flow_collection_start(self, kind: type[Token]) -> None:
        self._open.append(kind)
        super().fetch_flow_collection_start(kind)

    def fetch_flow_collection_end(self, kind: type[Token]) -> None:
        if not self._open:
            raise ParserError(None, None, "nothing ends here", self.get_mark())
        self._open.pop()
        super().fetch_flow_collection_end(kind)

    def check_value(self) -> bool:
        """Return whether a colon comes before a value; within a list in brackets that takes a space, as in a block."""
        is_in_value = bool(self.tokens) and isinstance(self.tokens[-1], ValueToken)
        is_of_mapping = bool(self._open) and self._open[-1] is FlowMappingStartToken and not is_in_value
        return is_of_mapping or self.peek(1) in _END_OR_SPACE

    def check_plain(self) -> bool:
        is_word = self.flow_level and self.peek() == ":" and self.peek(1) not in " \t"
        return bool(is_word or super().check_plain())

    def scan_to_next_token(self) -> None:
        super().scan_to_next_token()
        while self.flow_level and self.peek() == "\t":
            self.forward()
            super().scan_to_next_token()

    def scan_anchor(self, kind: type[AnchorToken | AliasToken]) -> AnchorToken | AliasToken:
        """Scan an anchor or an alias, whose name may have any characters in it that begin nothing else."""
        start = self.get_mark()
        self.forward()
        length = 0
        while self.peek(length) not in f"{_END_OR_SPACE},[]{{}}\ufeff":
            length += 1
        if not length:
            raise ScannerError("while scanning an anchor", start, "its name is missing", self.get_mark())
        name = self.prefix(length)
        self.forward(length)
        return kind(name, start, self.get_mark())

    def scan_plain(self) -> ScalarToken:
        """Scan text without quotes. In a list in brackets, too, it may have colons and question marks in it."""
        chunks: list[str] = []
        start = end = self.get_mark()
        indent = self.indent + 1
        spaces: list[str] = []
        while self.peek() != "#":
            length = 0
            while not self._ends_plain(length):
                length += 1
            if length == 0:
                break
            self.allow_simple_key = False
            chunks += [*spaces, self.prefix(length)]
            self.forward(length)
            end = self.get_mark()
            spaces = self.scan_plain_spaces(indent, start) or []
            if not spaces or (not self.flow_level and self.column < indent):
                break
        return ScalarToken("".join(chunks), True, start, end)

    def _ends_plain(self, length: int) -> bool:
        char = self.peek(length)
        if char == ":":
            return self.peek(length + 1) in _END_OR_SPACE
        return char in _END_OR_SPACE or (bool(self.flow_level) and char in ",[]{}")

    # --- parser and composer ---

    def parse_block_mapping_key(self) -> Event:
        """Parse a key, or find that a value has none (`: a`)."""
        if not self.check_token(ValueToken):
            return cast(Event, super().parse_block_mapping_key())  # type: ignore[no-untyped-call]
        self.state = self.parse_block_mapping_value
        return cast(Event, self.process_empty_scalar(self.tokens[0].start_mark))

    def compose_node(self, parent: Node | None, index: Any) -> Node | None:
        """Compose a node; an anchor that is set again replaces the one before."""
        if not self.check_event(AliasEvent):
            self.anchors.pop(self.current_event.anchor, None)
        return super().compose_node(parent, index)

    # --- resolver ---

    def resolve(self, kind: type[Node], value: Any, implicit: Any) -> str:
        if kind is not ScalarNode or not implicit[0]:
            return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]
        words = _WORDS_OF_1_1 if self._is_of_1_1() else _WORDS
        for tag, form, first in words:
            if value[:1] in first and re.fullmatch(form, value):
                return _TAG + tag
        return f"{_TAG}str"

    def _is_of_1_1(self) -> bool:
        version = self.yaml_version
        if version not in (None, (1, 1), (1, 2)):
            raise ConstructorError(None, None, f"there is no YAML {version[0]}.{version[1]}", self.get_mark())
        return bool(version == (1, 1))

    # --- constructor ---

    def construct_bool(self, node: ScalarNode) -> bool:
        value = _BOOLS.get(str(self.construct_scalar(node)).lower())
        if value is None:
            raise ConstructorError(None, None, "this is no bool", node.start_mark)
        return value

    def construct_int(self, node: ScalarNode) -> int:
        if self._is_of_1_1():
            return int(self.construct_yaml_int(node))
        text = str(self.construct_scalar(node)).replace("_", "")
        digits = text[1:] if text[:1] in ("+", "-") else text
        radix = _RADIX.get(digits[:2])
        number = int(digits) if radix is None else int(digits[2:], radix)
        return -number if text.startswith("-") else number

    def construct_float(self, node: ScalarNode) -> float:
        text = str(self.construct_scalar(node))
        if ":" in text and self._is_of_1_1():
            return float(self.construct_yaml_float(node))
        return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))

    def construct_time(self, node: ScalarNode) -> date | datetime:
        match = _TIMESTAMP.fullmatch(str(self.construct_scalar(node)))
        if match is None:
            raise ConstructorError(None, None, "this is no date", node.start_mark)
        *numbers, fraction, zone, sign, hours, minutes = match.groups()
        if numbers[3] is None:
            return date(*map(int, numbers[:3]))
        year, month, day, hour, minute, second = map(int, numbers)
        digits = (fraction or "").ljust(7, "0")
        at = datetime(year, month, day, hour, minute, second)
        at += timedelta(microseconds=int(digits[:6]) + (digits[6] > "4"))
        if zone is None:
            return at
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0)) if sign else timedelta()
        return at.replace(tzinfo=timezone(-offset if sign == "-" else offset, zone))

    def construct_ordered(self, node: Node) -> Iterator[OrderedDict[Any, Any]]:
        ordered: OrderedDict[Any, Any] = OrderedDict()
        yield ordered
        # filled when its generator has ended
        *_, pairs = self.construct_yaml_omap(node)
        ordered.update(pairs)

    def construct_mapping(self, node: Node, deep: bool = False) -> dict[Hashable, Any]:
        """Make a dict. Keys that are lists become tuples; a key twice is an error, unless `<<` is merged in."""
        if not isinstance(node, MappingNode):
            raise ConstructorError(None, None, "there must be a mapping here", node.start_mark)
        merges = [key for key, _ in node.value if key.tag == f"{_TAG}merge"]
        if len(merges) > 1:
            raise ConstructorError("in a mapping", node.start_mark, "the key << is there twice", merges[1].start_mark)
        self.flatten_mapping(node)
        made: dict[Hashable, Any] = {}
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            key = tuple(key) if isinstance(key, list) else key
            try:
                is_twice = key in made
            except TypeError:
                raise ConstructorError("in a mapping", node.start_mark, "no such key", key_node.start_mark) from None
            if is_twice and not merges:
                raise ConstructorError(
                    "in a mapping", node.start_mark, f"the key {key!r} is there twice", key_node.start_mark
                )
            made[key] = self.construct_object(value_node, deep=deep)
        return made


_Loader.add_constructor(f"{_TAG}bool", _Loader.construct_bool)
_Loader.add_constructor(f"{_TAG}int", _Loader.construct_int)
_Loader.add_constructor(f"{_TAG}float", _Loader.construct_float)
_Loader.add_constructor(f"{_TAG}timestamp", _Loader.construct_time)
_Loader.add_constructor(f"{_TAG}omap", _Loader.construct_ordered)
