"""MapState that holds None, for values of each type: what it contains, gets and lists."""

from outcomes import show_together
from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.state import MapStateDescriptor

KINDS = [
    (Types.STRING(), "x"),
    (Types.LONG(), 0),
    (Types.DOUBLE(), 0.0),
    (Types.BOOLEAN(), False),
    (Types.LIST(Types.INT()), []),
    (Types.MAP(Types.STRING(), Types.INT()), {}),
    (Types.ROW([Types.INT()]), Row(None)),
    (Types.PICKLED_BYTE_ARRAY(), ()),
]


class Keep(KeyedProcessFunction):
    def __init__(self, kind, kept):
        self.kind = kind
        self.kept = kept

    def open(self, runtime_context):
        self.marks = runtime_context.get_map_state(MapStateDescriptor("marks", Types.STRING(), self.kind))

    def process_element(self, value, ctx):
        if value == 1:
            self.marks.put("none", None)
            self.marks.put("some", self.kept)
        yield f"{[self.marks.contains(name) for name in ('none', 'some', 'other')]}"
        yield f"{self.marks.get('none')} {self.marks.get('some')} {self.marks.get('other')}"
        yield f"{sorted(self.marks.keys())} {sorted(map(repr, self.marks.values()))} {self.marks.is_empty()}"
        if value == 2:
            self.marks.remove("some")
            self.marks.put("none", self.kept)
            yield f"{sorted(self.marks.items())} {self.marks.contains('none')}"


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    numbers = env.from_collection([1, 2], Types.INT())
    keyed = numbers.key_by(lambda number: 0, Types.INT())
    show_together({str(kind): keyed.process(Keep(kind, kept), Types.STRING()) for kind, kept in KINDS})


if __name__ == "__main__":
    main()
